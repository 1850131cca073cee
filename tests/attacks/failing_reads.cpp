// Preloaded into a daemon under test: reads of flyball.db fail with EIO. $FLYBALL_TEST_READS is "FIRST COUNT": COUNT
// reads fail, beginning with read FIRST (the first is 0). Each failure appends a byte to $FLYBALL_TEST_READS_FAILED.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

bool is_store(int fd) noexcept {
  char link[32];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path);
  return n > 0 && std::string_view(path, static_cast<std::size_t>(n)).ends_with("/flyball.db");
}

bool fails(int fd) noexcept {
  static std::atomic<int> reads = 0;
  const char* which = std::getenv("FLYBALL_TEST_READS");
  const char* told = std::getenv("FLYBALL_TEST_READS_FAILED");
  int first = 0, count = 0;
  if (which == nullptr || told == nullptr || std::sscanf(which, "%d %d", &first, &count) != 2 || !is_store(fd)) return false;
  const int n = reads++;
  if (n < first || n >= first + count) return false;
  const int out = open(told, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out >= 0) {
    (void)!write(out, "x", 1);
    close(out);
  }
  errno = EIO;
  return true;
}

template <class Function>
Function next(const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t read(int fd, void* to, std::size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, std::size_t)>("read");
  return fails(fd) ? -1 : real(fd, to, size);
}

extern "C" ssize_t pread(int fd, void* to, std::size_t size, off_t at) {
  static const auto real = next<ssize_t (*)(int, void*, std::size_t, off_t)>("pread");
  return fails(fd) ? -1 : real(fd, to, size, at);
}

extern "C" ssize_t pread64(int fd, void* to, std::size_t size, off64_t at) {
  static const auto real = next<ssize_t (*)(int, void*, std::size_t, off64_t)>("pread64");
  return fails(fd) ? -1 : real(fd, to, size, at);
}
