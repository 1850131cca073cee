#include "daemon/store/state_lock.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace flyball::store {
namespace {

using Mode = config::FileLock::Mode;

// running_daemon() holds the lock for an instant. A daemon that starts in this instant tries again.
constexpr int kTries = 5;
constexpr std::chrono::milliseconds kPause{50};

std::filesystem::path lock_in(const std::filesystem::path& state_dir) {
  return state_dir / "flyball.db.lock";
}

}  // namespace

std::expected<config::FileLock, LockFailure> lock_state(const std::filesystem::path& state_dir) {
  auto lock = config::FileLock::open(lock_in(state_dir));
  if (!lock) return std::unexpected(LockFailure{std::move(lock.error())});
  for (int tries = 1; !lock->try_take(Mode::alone); ++tries) {
    if (errno != EWOULDBLOCK)
      return std::unexpected(LockFailure{{ErrorCode::io_error,
                                          std::string("The state directory cannot be locked: ") +
                                              std::strerror(errno) + ".",
                                          "state_dir", state_dir.string()}});
    if (tries == kTries)
      return std::unexpected(
          LockFailure{{ErrorCode::io_error,
                       "Another daemon (" + process_name(lock->signer()) +
                           ") uses this state directory: stop it, or give this one a state_dir of its own.",
                       "state_dir", state_dir.string()},
                      true});
    std::this_thread::sleep_for(kPause);
  }
  lock->sign();
  return std::move(*lock);
}

std::optional<int> running_daemon(const std::filesystem::path& state_dir) {
  std::error_code error;
  if (!std::filesystem::exists(lock_in(state_dir), error)) return std::nullopt;
  auto lock = config::FileLock::open(lock_in(state_dir));
  if (!lock || lock->try_take(Mode::shared) || errno != EWOULDBLOCK) return std::nullopt;
  return lock->signer();
}

std::string process_name(int id) {
  return id > 0 ? "process " + std::to_string(id) : "a process of unknown id";
}

}  // namespace flyball::store
