// Fork-join over index ranges for regions of about ten microseconds. Workers spin briefly between regions and
// sleep when none comes; indices are claimed one by one, so a thread that the system took off its core holds
// up one chunk, not a fixed share of the work. One caller at a time, and it works too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace flyball::device {

// Processors this process may keep busy, at least 1: its affinity mask, or its cgroup's quota of processor
// time (rounded up), where that is less.
std::uint32_t usable_processors();

class ThreadPool {
 public:
  // The caller included, > 0. Fewer, where the system gives no more.
  explicit ThreadPool(std::uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(workers_.size()) + 1; }

  // Calls body(i) once for each i < n and returns when all are done. What the caller wrote before is visible
  // to every body, and what the bodies wrote to the caller after. Bodies do not throw.
  template <class Body>
  void for_each(std::uint32_t n, Body&& body) {
    if (workers_.empty() || n <= 1) {
      for (std::uint32_t i = 0; i < n; ++i) body(i);
      return;
    }
    run(
        n,
        [](const void* context, std::uint32_t i) {
          (*static_cast<const std::remove_reference_t<Body>*>(context))(i);
        },
        &body);
  }

 private:
  using Task = void (*)(const void* context, std::uint32_t index);

  void run(std::uint32_t n, Task task, const void* context);
  bool work();  // claims and runs one index; false: none left
  void worker_loop();

  // Written by the caller before it publishes `claims_`; stable until every claimed index is done.
  Task task_ = nullptr;
  const void* context_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> claims_{
      0};  // high half: indices of the region; low half: next to claim
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace flyball::device
