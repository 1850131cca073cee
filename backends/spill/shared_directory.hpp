// The daemons that use one KV directory. Each has apps of its own, so none may remove KV of unknown apps
// while another one is there.
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
  // Enters this process as a user of the directory, for as long as the returned value lives. Makes the
  // directory where it is absent. Waits until another process's sweep ends. io_error: the directory cannot be
  // used or locked. cancelled: a sweep was still running when stop was requested.
  static Result<SharedDirectory> enter(const std::filesystem::path& directory, const std::stop_token& stop);

  // Whether the path still names the directory that was entered: somebody may have removed it and made
  // another.
  bool is_at(const std::filesystem::path& path) const;

  // remove_all_but() where no other process uses the directory; nullopt, and nothing removed, where one does.
  // io_error: it cannot be locked or read. cancelled: stop was requested before the sweep began. One thread.
  Result<std::optional<std::size_t>> sweep(std::span<const std::string> owners, const std::stop_token& stop);

 private:
  SharedDirectory(std::filesystem::path path, config::FileLock users)
      : path_(std::move(path)), users_(std::move(users)) {}
  Result<bool> become_alone(const std::stop_token& stop);
  void share_again(const std::stop_token& stop);

  std::filesystem::path path_;
  config::FileLock users_;  // the directory itself: shared by its users, and held alone during a sweep
};

}  // namespace flyball::spill
