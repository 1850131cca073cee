// The line between the engine's threads and one client: events go out until the client closes it or the last
// one has gone. After close() has returned no push is running and none begins.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/backend.hpp"
#include "backends/kv/kv_accountant.hpp"

namespace flyball::engine {

class Delivery {
 public:
  explicit Delivery(std::shared_ptr<EventSink> sink) : sink_(std::move(sink)) {}

  // False: the client is behind. Nothing happens once closed.
  bool push(Event event) noexcept {
    const std::lock_guard lock(mutex_);
    if (!sink_) return true;
    const std::shared_ptr<EventSink> sink = sink_;  // the sink may close us from inside push
    return sink->push(std::move(event));
  }
  // The last event.
  void finish(Event event) noexcept {
    const std::lock_guard lock(mutex_);
    if (const std::shared_ptr<EventSink> sink = std::exchange(sink_, nullptr)) sink->push(std::move(event));
    closed_.store(true, std::memory_order_release);
  }
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    sink_.reset();
    closed_.store(true, std::memory_order_release);
  }
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  // True for the first of several resumes that the engine has not seen yet: one command stands for all.
  bool ask_resume() noexcept { return !resume_asked_.exchange(true); }
  // True: there was one.
  bool resume_seen() noexcept { return resume_asked_.exchange(false); }

  // The engine thread's own: the sequence that this is the line of; 0 until it is submitted.
  kv::SequenceId sequence = 0;

 private:
  std::recursive_mutex mutex_;  // recursive: a client may cancel from inside its own push
  std::shared_ptr<EventSink> sink_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> resume_asked_{false};
};

}  // namespace flyball::engine
