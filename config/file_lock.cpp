#include "config/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

namespace flyball::config {

Result<FileLock> FileLock::open(const std::filesystem::path& file) {
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!opened)
    return fail(ErrorCode::io_error,
                std::string("The lock file cannot be opened: ") + std::strerror(errno) + ".", {},
                file.string());
  return FileLock(std::move(opened));
}

bool FileLock::try_take(Mode mode) noexcept {
  return ::flock(file_.get(), (mode == Mode::alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0;
}

void FileLock::give_up() noexcept {
  ::flock(file_.get(), LOCK_UN);
}

void sign(const std::filesystem::path& file) noexcept {
  // O_NONBLOCK: a pipe by that name would hold us here.
  const Descriptor opened(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat s {};
  if (!opened || ::fstat(opened.get(), &s) != 0 || !S_ISREG(s.st_mode) || ::ftruncate(opened.get(), 0) != 0)
    return;
  const std::string id = std::to_string(::getpid()) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(opened.get(), id.data(), id.size());
}

std::string signer(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  char text[16] = "";
  const ssize_t size = opened ? ::read(opened.get(), text, sizeof text) : -1;
  int id = 0;
  if (size > 0) std::from_chars(text, text + size, id);
  const bool runs = id > 0 && (::kill(id, 0) == 0 || errno == EPERM);
  return runs ? "process " + std::to_string(id) : "a process of unknown id";
}

}  // namespace flyball::config
