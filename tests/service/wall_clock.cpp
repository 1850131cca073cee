// Preloaded into a daemon under test: the clocks that a person, NTP or a resume from suspend may move are off
// by as many seconds as the file $XDG_FLYBALL_TEST_CLOCK holds at that moment (a native int64). Time spans are
// the kernel's own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using Offset = std::atomic<std::int64_t>;

std::int64_t offset() noexcept {
  static const Offset* const shared = []() -> const Offset* {
    const char* path = std::getenv("XDG_FLYBALL_TEST_CLOCK");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* const at = mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<const Offset*>(at);
  }();
  return shared == nullptr ? 0 : shared->load(std::memory_order_relaxed);
}

bool may_jump(clockid_t clock) noexcept {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI ||
         clock == CLOCK_BOOTTIME;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && may_jump(clock)) now->tv_sec += offset();
  return result;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  *now = {exact.tv_sec, exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
