// Preloaded into a daemon under test: in the worker of a cpu engine every look at the steady clock takes
// $XDG_FLYBALL_TEST_SLOW milliseconds. A step looks several times, so that the engine is slow and works as
// ever.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

namespace {

// "flyball\0engine\0...\0--backend\0cpu\0..."
bool is_cpu_engine() noexcept {
  static char words[4096];
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, words, sizeof words);
  close(fd);
  using namespace std::string_view_literals;
  const std::string_view all(words, n > 0 ? static_cast<std::size_t>(n) : 0);
  return all.find("\0engine\0"sv) != all.npos && all.find("\0--backend\0cpu\0"sv) != all.npos;
}

long delay_ms() noexcept {
  const char* const ms = std::getenv("XDG_FLYBALL_TEST_SLOW");
  return ms != nullptr && is_cpu_engine() ? std::atol(ms) : 0;
}

}  // namespace

std::chrono::steady_clock::time_point std::chrono::_V2::steady_clock::now() noexcept {
  static const long delay = delay_ms();
  if (delay > 0) {
    const timespec span{delay / 1000, delay % 1000 * 1'000'000};
    nanosleep(&span, nullptr);
  }
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return time_point(duration(seconds(at.tv_sec) + nanoseconds(at.tv_nsec)));
}
