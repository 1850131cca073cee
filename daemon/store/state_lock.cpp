#include "daemon/store/state_lock.hpp"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "config/file_error.hpp"

namespace flyball::store {
namespace {

using Mode = config::FileLock::Mode;

// running_daemon() holds the lock for an instant. A daemon that starts in this instant tries again.
constexpr int kTries = 5;
constexpr std::chrono::milliseconds kPause{50};

// The directory itself is the lock: a file in it may be removed.
Result<config::FileLock> lock_of(const std::filesystem::path& state_dir) {
  Descriptor opened(::open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened)
    return fail(ErrorCode::io_error, "The state directory " + config::unreadable(state_dir, errno) + ".",
                "state_dir", state_dir.string());
  return config::FileLock(std::move(opened));
}
// The file that names the process which has the directory.
std::filesystem::path name_in(const std::filesystem::path& state_dir) {
  return state_dir / "flyball.pid";
}

}  // namespace

std::expected<config::FileLock, LockFailure> lock_state(const std::filesystem::path& state_dir) {
  auto lock = lock_of(state_dir);
  if (!lock) return std::unexpected(LockFailure{std::move(lock.error())});
  const auto failure = [&](std::string message, bool in_use) {
    return std::unexpected(
        LockFailure{{ErrorCode::io_error, std::move(message), "state_dir", state_dir.string()}, in_use});
  };
  for (int tries = 1; !lock->try_take(Mode::alone); ++tries) {
    if (errno != EWOULDBLOCK)
      return failure(std::string("The state directory cannot be locked: ") + std::strerror(errno) + ".", false);
    if (tries == kTries)
      return failure("Another daemon (" + config::signer(name_in(state_dir)) +
                         ") uses this state directory: stop it, or give this one a state_dir of its own.",
                     true);
    std::this_thread::sleep_for(kPause);
  }
  config::sign(name_in(state_dir));
  return std::move(*lock);
}

std::optional<std::string> running_daemon(const std::filesystem::path& state_dir) {
  auto lock = lock_of(state_dir);
  if (!lock || lock->try_take(Mode::shared) || errno != EWOULDBLOCK) return std::nullopt;
  return config::signer(name_in(state_dir));
}

}  // namespace flyball::store
