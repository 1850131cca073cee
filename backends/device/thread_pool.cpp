#include "backends/device/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "backends/device/cgroup.hpp"

namespace flyball::device {
namespace {

// A pause is 40 to 140 cycles on current x86, so this spins for some 50 us: longer than the serial pieces
// between the regions of a step, shorter than anybody notices when the engine falls idle.
constexpr std::uint32_t kSpins = 2'000;
// The caller gives its core away when a chunk is outstanding this long: the thread that has it may need that
// core.
constexpr std::uint32_t kSpinsBeforeYield = 20'000;

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr std::uint32_t claimed(std::uint64_t claims) noexcept {
  return static_cast<std::uint32_t>(claims);
}
constexpr std::uint32_t total(std::uint64_t claims) noexcept {
  return static_cast<std::uint32_t>(claims >> 32);
}

}  // namespace

std::uint32_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    processors = static_cast<std::uint32_t>(CPU_COUNT(&set));
  const double quota = std::max(1.0, std::ceil(cgroup_limits().processors));
  return quota < processors ? static_cast<std::uint32_t>(quota) : processors;
}

ThreadPool::ThreadPool(std::uint32_t threads) {
  workers_.reserve(threads - 1);
  try {
    for (std::uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { worker_loop(); });
  } catch (const std::system_error&) {
    // A limit on tasks or memory: slower, not wrong. size() says how many there are.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(sleep_mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run(std::uint32_t n, Task task, const void* context) {
  task_ = task;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  // seq_cst here and in worker_loop: either the sleeper sees the region, or we see the sleeper.
  claims_.store(std::uint64_t{n} << 32);
  if (sleepers_.load() > 0) {
    { const std::lock_guard lock(sleep_mutex_); }
    wake_.notify_all();
  }
  while (work()) {
  }
  for (std::uint32_t spins = 0; done_.load(std::memory_order_acquire) != n; ++spins) {
    relax();
    if (spins >= kSpinsBeforeYield) sched_yield();
  }
}

bool ThreadPool::work() {
  std::uint64_t claims = claims_.load(std::memory_order_relaxed);
  if (claimed(claims) >= total(claims)) return false;
  // Whatever region is current by now, the index taken is one of it, and it stays until that index is done.
  claims = claims_.fetch_add(1, std::memory_order_acquire);
  if (claimed(claims) >= total(claims)) return false;
  task_(context_, claimed(claims));
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

void ThreadPool::worker_loop() {
  std::uint32_t spins = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (work()) {
      spins = 0;
      continue;
    }
    if (++spins < kSpins) {
      relax();
      continue;
    }
    spins = 0;
    std::unique_lock lock(sleep_mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [this] {
      const std::uint64_t claims = claims_.load();
      return stop_.load() || claimed(claims) < total(claims);
    });
    sleepers_.fetch_sub(1);
  }
}

}  // namespace flyball::device
