// The apps of one queue in a forecast, in the order of their turns. It gives what next_turn() gives without a
// look at every app at every turn: a forecast follows up to 64 turns, of up to a thousand apps. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/fairness.hpp"

namespace flyball::route {

class TurnOrder {
 public:
  // Until begin() the apps may be changed as the caller likes; from then on only as below.
  std::vector<QueuedApp> apps;

  void begin() {
    next_.clear();
    newcomers_.clear();
    yielding_ = 0;
    came_last_ = came_before_ = nullptr;
    for (std::size_t i = 0; i < apps.size(); ++i) {
      const QueuedApp& app = apps[i];
      yielding_ += yields_place(app.presence) ? 1 : 0;
      if (came_last_ == nullptr || app.came > came_last_->came)
        came_before_ = std::exchange(came_last_, &app);
      else if (came_before_ == nullptr || app.came > came_before_->came)
        came_before_ = &app;
      if (!app.waits()) continue;
      next_.push_back(waiting(i));
      if (is_newcomer(app.presence)) newcomers_.push_back(waiting(i));
    }
    std::ranges::make_heap(next_, Later{});
    std::ranges::make_heap(newcomers_, Later{});
  }

  // The same as next_turn(apps, slots, taken, handed_over).
  std::optional<std::size_t> next(std::uint32_t slots, std::uint32_t taken, std::uint64_t handed_over) {
    drop(next_, [](const QueuedApp&) { return true; });
    if (next_.empty()) return std::nullopt;
    drop(newcomers_, [](const QueuedApp& app) { return is_newcomer(app.presence); });
    TurnCandidates among;
    among.next = &apps[next_.front().index];
    if (!newcomers_.empty()) among.newcomer = &apps[newcomers_.front().index];
    among.one_yields = yielding_ > 0;
    const QueuedApp* const other = came_last_ == among.next ? came_before_ : came_last_;
    among.others_come = other != nullptr && came_lately(*other, handed_over);
    const QueuedApp* const turn = turn_of(among, slots, taken);
    return turn == nullptr ? std::nullopt : std::optional(static_cast<std::size_t>(turn - apps.data()));
  }

  // The app's first request is handed over. `first`: the one that it waits with then.
  void hand_over(std::size_t index, double service, std::uint64_t first) {
    QueuedApp& app = apps[index];
    app.service = service;
    app.first = first;
    set_presence(app, app.presence + 1);
    if (app.waits()) push(next_, waiting(index));
  }
  // One of the app's requests at the engine ends.
  void end(std::size_t index) {
    QueuedApp& app = apps[index];
    set_presence(app, app.presence - 1);
    if (is_newcomer(app.presence) && app.waits()) push(newcomers_, waiting(index));
  }

 private:
  // An app with its first request. It is stale once the app waits with another one.
  struct Waiting {
    double service = 0;
    std::uint64_t first = 0;
    std::size_t index = 0;
  };
  struct Later {
    bool operator()(const Waiting& a, const Waiting& b) const noexcept {
      return std::pair(b.service, b.first) < std::pair(a.service, a.first);
    }
  };
  using Heap = std::vector<Waiting>;

  Waiting waiting(std::size_t index) const { return {apps[index].service, apps[index].first, index}; }
  static void push(Heap& heap, const Waiting& one) {
    heap.push_back(one);
    std::ranges::push_heap(heap, Later{});
  }
  template <class Counts>
  void drop(Heap& heap, Counts counts) const {
    while (!heap.empty()) {
      const Waiting& one = heap.front();
      if (apps[one.index].first == one.first && counts(apps[one.index])) return;
      std::ranges::pop_heap(heap, Later{});
      heap.pop_back();
    }
  }
  void set_presence(QueuedApp& app, std::uint32_t presence) noexcept {
    yielding_ -= yields_place(app.presence) ? 1 : 0;
    app.presence = presence;
    yielding_ += yields_place(app.presence) ? 1 : 0;
  }

  Heap next_, newcomers_;
  std::size_t yielding_ = 0;                                       // apps that yield a place
  const QueuedApp *came_last_ = nullptr, *came_before_ = nullptr;  // the two that came last
};

}  // namespace flyball::route
