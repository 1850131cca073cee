// The lock of a state directory. One daemon has a directory at a time, because its engines, its apps and
// their usage are known to that daemon alone.
#pragma once

#include <expected>
#include <filesystem>
#include <optional>
#include <string>

#include "config/error.hpp"
#include "config/file_lock.hpp"

namespace flyball::store {

struct LockFailure {
  Error error;  // io_error
  bool in_use =
      false;  // another process holds the lock, and the error names it; else the directory cannot be locked
};
// Takes the lock of an existing directory for this process, for as long as the returned value lives.
std::expected<config::FileLock, LockFailure> lock_state(const std::filesystem::path& state_dir);

// The process that holds the lock ("process 1234"); nullopt where no process holds it.
std::optional<std::string> running_daemon(const std::filesystem::path& state_dir);

}  // namespace flyball::store
