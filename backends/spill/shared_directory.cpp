#include "backends/spill/shared_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "backends/device/cache_directory.hpp"
#include "backends/spill/spill_store.hpp"

namespace flyball::spill {
namespace {

using config::FileLock;
using Mode = FileLock::Mode;

constexpr std::chrono::milliseconds kPause{20};  // between two tries to take a lock

std::unexpected<Error> cannot_lock(const std::filesystem::path& directory) {
  return fail(ErrorCode::io_error,
              std::string("The KV directory cannot be locked: ") + std::strerror(errno) + ".", {},
              directory.string());
}

// Waits for the lock until stop is requested: another process may hold it while its disk hangs. Tries at
// least once.
Result<void> take(FileLock& lock, Mode mode, const std::filesystem::path& directory,
                  const std::stop_token& stop) {
  while (!lock.try_take(mode)) {
    if (errno != EWOULDBLOCK) return cannot_lock(directory);
    if (stop.stop_requested())
      return fail(ErrorCode::cancelled, "Another process has the KV directory's lock.", {},
                  directory.string());
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

// The lock that SpillStore::make_room takes, too. It covers a change of mode: between the two modes a process
// has no lock of the directory, and another sweep would begin.
Result<FileLock> take_change(const std::filesystem::path& directory, const std::stop_token& stop) {
  auto lock = FileLock::open(directory / kChangeLock);
  if (!lock) return lock;
  if (auto taken = take(*lock, Mode::alone, directory, stop); !taken) return pass(taken);
  return lock;
}

}  // namespace

Result<SharedDirectory> SharedDirectory::enter(const std::filesystem::path& directory,
                                               const std::stop_token& stop) {
  const auto made = device::CacheDirectory::make(directory, device::CacheDirectory::Trust::owner);
  if (!made) return pass(made);
  // A descriptor of its own, because locks go with the open file. The directory itself is the lock: files in
  // it may be removed at any time.
  Descriptor opened(::openat(made->fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return cannot_lock(directory);
  SharedDirectory entered(directory, FileLock(std::move(opened)));
  if (auto taken = take(entered.users_, Mode::shared, directory, stop); !taken) return pass(taken);
  return entered;
}

bool SharedDirectory::is_at(const std::filesystem::path& path) const {
  struct stat here {
  }, there{};
  return path == path_ && ::fstat(users_.descriptor(), &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// False: another process uses the directory.
Result<bool> SharedDirectory::become_alone(const std::stop_token& stop) {
  const auto change = take_change(path_, stop);
  if (!change) return pass(change);
  if (users_.try_take(Mode::alone)) return true;
  const int why = errno;
  users_.try_take(Mode::shared);  // free: nobody becomes alone while the lock of changes is held
  if (why == EWOULDBLOCK) return false;
  errno = why;
  return cannot_lock(path_);
}

void SharedDirectory::share_again(const std::stop_token& stop) {
  const auto change = take_change(path_, stop);
  // Without the lock of changes another daemon may sweep, which is better than to keep all others out.
  if (!change || !users_.try_take(Mode::shared)) users_.give_up();
}

Result<std::optional<std::size_t>> SharedDirectory::sweep(std::span<const std::string> owners,
                                                          const std::stop_token& stop) {
  const auto alone = become_alone(stop);
  if (!alone) return pass(alone);
  if (!*alone) return std::nullopt;
  auto removed = remove_all_but(path_, owners, stop);
  share_again(stop);
  if (!removed) return pass(removed);
  return *removed;
}

}  // namespace flyball::spill
