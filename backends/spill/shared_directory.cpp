#include "backends/spill/shared_directory.hpp"

#include <fcntl.h>

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

constexpr std::chrono::milliseconds kPause{20};  // between two looks whether another process's sweep has ended

}  // namespace

Result<SharedDirectory> SharedDirectory::enter(const std::filesystem::path& directory, const std::stop_token& stop) {
  const auto opened = device::CacheDirectory::make(directory, device::CacheDirectory::Trust::owner);
  if (!opened) return pass(opened);
  const auto open = [&](const char* name) {
    return FileLock(Descriptor(::openat(opened->fd(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)));
  };
  SharedDirectory entered(directory, open(kUsersLock), open(kChangeLock));
  while (!entered.users_.try_take(Mode::shared)) {
    if (errno != EWOULDBLOCK)
      return fail(ErrorCode::io_error, std::string("The KV directory cannot be locked: ") + std::strerror(errno) + ".", {},
                  directory.string());
    if (stop.stop_requested())
      return fail(ErrorCode::cancelled, "Another process still sweeps the KV directory.", {}, directory.string());
    std::this_thread::sleep_for(kPause);
  }
  return entered;
}

Result<std::optional<std::size_t>> SharedDirectory::sweep(std::span<const std::string> owners,
                                                          const std::stop_token& stop) {
  // A change of mode is no single step: in between this process has no lock of the users' file, and another sweep would
  // begin. Both waits are short, because nobody keeps the lock of changes and no sweep runs while it is held.
  const auto change_to = [&](auto take) {
    if (!change_.take(Mode::alone)) return false;
    const bool taken = take();
    if (!taken) users_.take(Mode::shared);
    change_.give_up();
    return taken;
  };
  if (!change_to([&] { return users_.try_take(Mode::alone); })) return std::nullopt;
  auto removed = remove_all_but(path_, owners, stop);
  change_to([&] { return users_.take(Mode::shared); });
  if (!removed) return pass(removed);
  return *removed;
}

}  // namespace flyball::spill
