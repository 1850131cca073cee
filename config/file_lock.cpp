#include "config/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace flyball::config {
namespace {

int operation_of(FileLock::Mode mode) noexcept {
  return mode == FileLock::Mode::alone ? LOCK_EX : LOCK_SH;
}

}  // namespace

Result<FileLock> FileLock::open(const std::filesystem::path& file) {
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!opened)
    return fail(ErrorCode::io_error, std::string("The lock file cannot be opened: ") + std::strerror(errno) + ".", {},
                file.string());
  return FileLock(std::move(opened));
}

bool FileLock::try_take(Mode mode) noexcept {
  return ::flock(file_.get(), operation_of(mode) | LOCK_NB) == 0;
}

bool FileLock::take(Mode mode) noexcept {
  while (::flock(file_.get(), operation_of(mode)) != 0)
    if (errno != EINTR) return false;
  return true;
}

void FileLock::give_up() noexcept {
  ::flock(file_.get(), LOCK_UN);
}

void FileLock::sign() noexcept {
  const std::string id = std::to_string(::getpid()) + "\n";
  // A file that cannot be written locks all the same; nobody learns of whom then.
  if (::ftruncate(file_.get(), 0) == 0)
    [[maybe_unused]] const ssize_t written = ::pwrite(file_.get(), id.data(), id.size(), 0);
}

int FileLock::signer() const noexcept {
  char text[16] = "";
  const ssize_t size = ::pread(file_.get(), text, sizeof text, 0);
  int id = 0;
  if (size > 0) std::from_chars(text, text + size, id);
  return id > 0 ? id : 0;
}

}  // namespace flyball::config
