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
    usual_.clear();
    behind_.clear();
    for (std::size_t i = 0; i < apps.size(); ++i) {
      const QueuedApp& app = apps[i];
      Line& line = line_of(app);
      line.add(app.presence);
      line.counts.add_latest(&app);
      if (!app.waits()) continue;
      line.next.push_back(waiting(i));
      if (is_newcomer(app.presence)) line.newcomers.push_back(waiting(i));
    }
    for (Line* line : {&usual_, &behind_}) {
      std::ranges::make_heap(line->next, Later{});
      std::ranges::make_heap(line->newcomers, Later{});
    }
  }

  // The same as next_turn(apps, slots, handed_over).
  std::optional<std::size_t> next(std::uint32_t slots, std::uint64_t handed_over) {
    const QueuedApp* const turn = turn_of(candidates(usual_), candidates(behind_), slots, handed_over);
    return turn == nullptr ? std::nullopt : std::optional(static_cast<std::size_t>(turn - apps.data()));
  }

  // The app's first request is handed over. `first`: the one that it waits with then.
  void hand_over(std::size_t index, double service, std::uint64_t first) {
    QueuedApp& app = apps[index];
    app.service = service;
    app.first = first;
    set_presence(app, app.presence + 1);
    if (app.waits()) push(line_of(app).next, waiting(index));
  }
  // One of the app's requests at the engine ends.
  void end(std::size_t index) {
    QueuedApp& app = apps[index];
    set_presence(app, app.presence - 1);
    if (is_newcomer(app.presence) && app.waits()) push(line_of(app).newcomers, waiting(index));
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
  struct Line {  // the apps of one place
    Heap next, newcomers;
    std::size_t yielding = 0;  // apps that yield a place
    TurnCandidates counts;

    void clear() {
      next.clear();
      newcomers.clear();
      yielding = 0;
      counts = {};
    }
    void add(std::uint32_t presence) noexcept {
      yielding += yields_place(presence) ? 1 : 0;
      counts.taken += presence;
    }
    void remove(std::uint32_t presence) noexcept {
      yielding -= yields_place(presence) ? 1 : 0;
      counts.taken -= presence;
    }
  };

  Line& line_of(const QueuedApp& app) noexcept { return app.behind ? behind_ : usual_; }
  const TurnCandidates& candidates(Line& line) {
    drop(line.next, [](const QueuedApp&) { return true; });
    drop(line.newcomers, [](const QueuedApp& app) { return is_newcomer(app.presence); });
    const auto first = [&](const Heap& heap) { return heap.empty() ? nullptr : &apps[heap.front().index]; };
    line.counts.next = first(line.next);
    line.counts.newcomer = first(line.newcomers);
    line.counts.one_yields = line.yielding > 0;
    return line.counts;
  }

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
    line_of(app).remove(app.presence);
    app.presence = presence;
    line_of(app).add(presence);
  }

  Line usual_, behind_;
};

}  // namespace flyball::route
