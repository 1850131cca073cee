// Items that wait, by turns of their owners: each owner's in the order in which they came, one an owner in a
// round. An owner who comes anew is the last of the round. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace flyball {

template <class T>
class RoundRobin {
 public:
  void put(std::string_view owner, T item) {
    auto queue = std::ranges::find(round_, owner, &Queue::owner);
    if (queue == round_.end()) queue = round_.insert(queue, Queue{std::string(owner), {}});
    try {
      queue->items.push_back(std::move(item));
    } catch (...) {
      if (queue->items.empty()) round_.erase(queue);
      throw;
    }
    ++size_;
  }
  // The first one of the owner whose turn it is; nullopt: none waits.
  std::optional<T> take() noexcept {
    if (round_.empty()) return std::nullopt;
    Queue& first = round_.front();
    std::optional<T> item(std::move(first.items.front()));
    first.items.pop_front();
    --size_;
    if (first.items.empty()) {
      round_.pop_front();
    } else {
      round_.splice(round_.end(), round_, round_.begin());
    }
    return item;
  }
  // The first one that is_it(item) names, out of its turn.
  template <class Predicate>
  std::optional<T> remove(Predicate&& is_it) noexcept {
    for (auto queue = round_.begin(); queue != round_.end(); ++queue) {
      const auto found = std::ranges::find_if(queue->items, is_it);
      if (found == queue->items.end()) continue;
      std::optional<T> item(std::move(*found));
      queue->items.erase(found);
      --size_;
      if (queue->items.empty()) round_.erase(queue);
      return item;
    }
    return std::nullopt;
  }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  struct Queue {
    std::string owner;
    std::deque<T> items;  // not empty
  };
  std::list<Queue> round_;  // by turn
  std::size_t size_ = 0;
};

}  // namespace flyball
