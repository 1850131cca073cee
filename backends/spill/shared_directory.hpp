// The daemons that use one KV directory. Each has apps of its own, so none may remove KV of unknown apps while another one
// is there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "config/error.hpp"
#include "config/file_lock.hpp"

namespace flyball::spill {

class SharedDirectory {
 public:
  // Enters this process as a user of the directory, for as long as the returned value lives. Makes the directory where it is
  // absent. Waits until another process's sweep ends. io_error: the directory cannot be used or locked. cancelled: stop was
  // requested during the wait.
  static Result<SharedDirectory> enter(const std::filesystem::path& directory, const std::stop_token& stop = {});

  // remove_all_but() where no other process uses the directory; nullopt, and nothing removed, where one does. One thread.
  Result<std::optional<std::size_t>> sweep(std::span<const std::string> owners, const std::stop_token& stop);

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  SharedDirectory(std::filesystem::path path, config::FileLock users, config::FileLock change)
      : path_(std::move(path)), users_(std::move(users)), change_(std::move(change)) {}

  std::filesystem::path path_;
  config::FileLock users_;   // shared by all users; alone during a sweep
  config::FileLock change_;  // held during a change of users_; SpillStore::make_room holds it, too
};

}  // namespace flyball::spill
