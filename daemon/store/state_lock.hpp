// The lock of a state directory. One daemon has the directory at a time: it alone knows what its engines hold, which apps
// there are, and what they used.
#pragma once

#include <expected>
#include <filesystem>
#include <optional>
#include <string>

#include "config/error.hpp"
#include "config/file_lock.hpp"

namespace flyball::store {

struct LockFailure {
  Error error;          // io_error
  bool in_use = false;  // another process holds the lock, and the error names it; else the lock file cannot be used
};
// Takes the lock of an existing directory for this process, for as long as the returned value lives.
std::expected<config::FileLock, LockFailure> lock_state(const std::filesystem::path& state_dir);

// The id of the process that holds the lock, 0 where the file does not tell it; nullopt where no process holds it.
std::optional<int> running_daemon(const std::filesystem::path& state_dir);

// "process 1234"; "a process of unknown id" for 0.
std::string process_name(int id);

}  // namespace flyball::store
