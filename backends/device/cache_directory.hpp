// A directory of small files that this program writes and reads: compiled kernels, tunings. What others may
// have put in a file's place (a link, a pipe, half of one) is never followed, waited for or read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "config/descriptor.hpp"
#include "config/error.hpp"

namespace flyball::device {

class CacheDirectory {
 public:
  enum class Trust {
    owner,   // code: the directory and its files are for this user alone, and count only if nobody else may
             // write
    anybody  // data of which every value is checked: readable by all
  };

  // A symbolic link in its place is not followed. io_error.
  static Result<CacheDirectory> open(const std::filesystem::path& path, Trust trust);
  // Made first if need be, and what is above it.
  static Result<CacheDirectory> make(const std::filesystem::path& path, Trust trust);

  // io_error: no regular file, larger than `max_bytes`, not to be trusted, or the system's reason.
  Result<std::string> read(const std::string& name, std::size_t max_bytes) const;
  // Written beside and renamed: no half of one is ever read. io_error; nothing is left behind then.
  Result<void> write(const std::string& name, std::span<const std::string_view> parts) const;

  // What all files are reached through: nobody can put another directory in its place.
  int fd() const noexcept { return directory_.get(); }

 private:
  CacheDirectory(std::filesystem::path path, Trust trust, Descriptor directory)
      : path_(std::move(path)), trust_(trust), directory_(std::move(directory)) {}
  std::unexpected<Error> failure(const std::string& name, const std::string& why) const;

  std::filesystem::path path_;
  Trust trust_;
  Descriptor directory_;
};

}  // namespace flyball::device
