// A queue between threads: any number put, one takes all that is there. Its length is bounded by what is put
// in it: the engine counts requests before they enter (EngineLimits), and each request has a bounded number
// of commands.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace flyball::engine {

template <class T>
class Mailbox {
 public:
  void put(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    arrived_.notify_one();
  }
  // All that is there, in order; with `wait`, at least one.
  std::vector<T> take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) arrived_.wait(lock, [this] { return !items_.empty(); });
    return std::exchange(items_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<T> items_;  // guarded by mutex_
};

}  // namespace flyball::engine
