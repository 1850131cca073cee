#include "config/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
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
  const Descriptor opened(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!opened) return;
  const std::string id = std::to_string(::getpid()) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(opened.get(), id.data(), id.size());
}

std::string signer(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  char text[16] = "";
  const ssize_t size = opened ? ::read(opened.get(), text, sizeof text) : -1;
  int id = 0;
  if (size > 0) std::from_chars(text, text + size, id);
  return id > 0 ? "process " + std::to_string(id) : "a process of unknown id";
}

}  // namespace flyball::config
