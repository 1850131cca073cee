// The files of a repository, as a hub lists them. Pure; every byte is a stranger's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::hub {

// The largest repositories of models have a few thousand files.
inline constexpr std::size_t kMaxRepoFiles = 20'000;
inline constexpr std::size_t kMaxListingPages = 40;
inline constexpr std::size_t kMaxPageBytes = 8U << 20;
// Sums of so many such sizes are 64-bit numbers still.
inline constexpr std::uint64_t kMaxFileBytes = 1ULL << 48;

struct RepoFile {
  std::string path;  // within the repository: safe names with slashes between them
  std::uint64_t size = 0;
  std::string sha256 =
      {};  // 64 lower-case hex digits of a large file; "" where the hub keeps it in git itself
  std::string git_oid = {};  // SHA-1 of a small file's git blob, 40 hex digits; "" where `sha256` is there
};

// One page of `GET /api/models/NAME/tree/REVISION?recursive=true`, which adds to `files`. upstream_invalid:
// no such JSON, a path that leaves the folder or holds a control character, a path that was there before,
// or more than kMaxRepoFiles.
Result<void> add_page(std::vector<RepoFile>& files, std::string_view json);
// The address with rel="next" in a Link field; "" where there is none.
std::string next_page(std::string_view link);
// True for a path of a listing that stays within its folder and names files that can be written.
bool is_safe_path(std::string_view path);

}  // namespace flyball::hub
