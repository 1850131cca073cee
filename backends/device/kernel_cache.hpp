// A folder of compiled kernels, in the form that a driver gives and takes. What lies in it is code that a
// driver will run, so only files that are ours alone to write count, in a folder that is ours alone to write;
// the rest is passed over and replaced. Whatever fails (a full disk, a folder that cannot be made) costs the
// cache and nothing else: it keeps no more from there on, and says why; what it has can still be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device/cache_directory.hpp"

namespace flyball::device {

class KernelCache {
 public:
  struct Kind {
    std::string_view magic;   // a file's first line
    std::string_view suffix;  // of its name
  };
  KernelCache() = default;
  // Made if need be, for its owner alone. "": keeps nothing. A symbolic link in its place is not followed.
  // What `kind` views outlives the cache. max_bytes: of all files together; those that were read or written
  // longest ago go first.
  KernelCache(const std::filesystem::path& directory, Kind kind, std::uint64_t max_bytes = 512ULL << 20);

  bool keeps() const noexcept { return directory_ && trouble_.empty(); }
  // Why it keeps no more. "": it does, or none was wanted.
  const std::string& trouble() const noexcept { return trouble_; }
  // key: hexadecimal digits. Empty: there is none, or none to be trusted.
  std::vector<std::byte> read(const std::string& key) const;
  // Written beside and renamed: no half of one is ever read.
  void write(const std::string& key, std::span<const std::byte> binary);

 private:
  void bound();
  void stop(const Error& why);
  std::string file_of(const std::string& key) const { return key + std::string(kind_.suffix); }
  Kind kind_;
  std::uint64_t max_bytes_ = 0;
  std::optional<CacheDirectory> directory_;
  std::string trouble_;
};

// Hexadecimal SHA-256 of the parts and of where each ends.
std::string digest_of(std::span<const std::string_view> parts);

}  // namespace flyball::device
