// A queue between threads: any number put, one takes all that is there. Its length is bounded by what is put
// in it: the engine counts requests before they enter (EngineLimits), and each request has a bounded number
// of commands. Both halves keep their memory: once `reserve` has seen that bound, put does not allocate.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace flyball::engine {

template <class T>
class Mailbox {
 public:
  void reserve(std::size_t n) {
    const std::lock_guard lock(mutex_);
    items_.reserve(n);
    taken_.reserve(n);
  }
  void put(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    arrived_.notify_one();
  }
  // All that is there, in order; with `wait`, at least one. The taker's until it takes again.
  std::vector<T>& take(bool wait) {
    taken_.clear();
    std::unique_lock lock(mutex_);
    if (wait) arrived_.wait(lock, [this] { return !items_.empty(); });
    taken_.swap(items_);
    return taken_;
  }
  // The same; none after so long.
  std::vector<T>& take_within(std::chrono::milliseconds patience) {
    taken_.clear();
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [this] { return !items_.empty(); });
    taken_.swap(items_);
    return taken_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<T> items_;  // guarded by mutex_
  std::vector<T> taken_;  // the taker's own
};

}  // namespace flyball::engine
