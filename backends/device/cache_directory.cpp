#include "backends/device/cache_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace flyball::device {
namespace {

std::string why(int error) {
  return std::generic_category().message(error);
}

std::unexpected<Error> unusable(const std::filesystem::path& path, const std::string& reason) {
  return fail(ErrorCode::io_error, "The cache directory cannot be used: " + reason + ".", {}, path.string());
}

bool owners_alone(uid_t owner, mode_t mode) {
  return owner == geteuid() && (mode & (S_IWGRP | S_IWOTH)) == 0;
}

// 0, or what went wrong.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

int read_all(int fd, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t n = ::read(fd, to.data(), to.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;  // shorter than it was a moment ago
    to = to.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

std::unexpected<Error> CacheDirectory::failure(const std::string& name, const std::string& reason) const {
  return fail(ErrorCode::io_error, "The file cannot be " + reason + ".", {}, (path_ / name).string());
}

Result<CacheDirectory> CacheDirectory::open(const std::filesystem::path& path, Trust trust) {
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat s {};
  if (!opened || fstat(opened.get(), &s) != 0) return unusable(path, why(errno));
  if (trust == Trust::owner && !owners_alone(s.st_uid, s.st_mode))
    return unusable(path, "others may write to it");
  return CacheDirectory(path, trust, std::move(opened));
}

Result<CacheDirectory> CacheDirectory::make(const std::filesystem::path& path, Trust trust) {
  std::error_code ignored;  // open() says what is wrong
  std::filesystem::create_directories(path.parent_path(), ignored);
  ::mkdir(path.c_str(), trust == Trust::owner ? 0700 : 0755);
  return open(path, trust);
}

Result<std::string> CacheDirectory::read(const std::string& name, std::size_t max_bytes) const {
  // O_NONBLOCK: a pipe by that name would hold us here.
  const Descriptor file(::openat(fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat s {};
  if (!file || fstat(file.get(), &s) != 0) return failure(name, "read: " + why(errno));
  if (!S_ISREG(s.st_mode)) return failure(name, "read: it is no regular file");
  const auto size = static_cast<std::uint64_t>(s.st_size);
  if (size > max_bytes)
    return failure(
        name, "read: it has " + std::to_string(size) + " bytes; the limit is " + std::to_string(max_bytes));
  if (trust_ == Trust::owner && !owners_alone(s.st_uid, s.st_mode))
    return failure(name, "trusted: others may write to it");
  std::string text(size, '\0');
  if (const int error = read_all(file.get(), text)) return failure(name, "read: " + why(error));
  return text;
}

Result<void> CacheDirectory::write(const std::string& name, std::span<const std::string_view> parts) const {
  const std::string beside = name + "." + std::to_string(getpid()) + ".part";
  ::unlinkat(fd(), beside.c_str(), 0);  // a process of our number that died
  const Descriptor file(::openat(fd(), beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                 trust_ == Trust::owner ? 0600 : 0644));
  if (!file) return failure(name, "written: " + why(errno));
  int error = 0;
  for (const std::string_view part : parts)
    if (error == 0) error = write_all(file.get(), part);
  if (error == 0 && ::fdatasync(file.get()) != 0)
    error = errno;  // a name for what is on the disk, and no sooner
  if (error == 0 && ::renameat(fd(), beside.c_str(), fd(), name.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlinkat(fd(), beside.c_str(), 0);
  return failure(name, "written: " + why(error));
}

}  // namespace flyball::device
