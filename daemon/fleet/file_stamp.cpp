#include "daemon/fleet/file_stamp.hpp"

#include <sys/stat.h>

#include <functional>
#include <string>
#include <system_error>

#include "backends/model/split_name.hpp"

namespace flyball::fleet {
namespace {

// Spreads every bit over all of them (the finalizer of splitmix64), so that sums of these tell things apart.
std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E37'79B9'7F4A'7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D0'49BB'1331'11EBU;
  return x ^ (x >> 31U);
}

std::uint64_t stamp_of(const std::filesystem::path& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return 0;
  std::uint64_t stamp = 0;
  for (const auto part :
       {static_cast<std::uint64_t>(s.st_ino), static_cast<std::uint64_t>(s.st_size),
        static_cast<std::uint64_t>(s.st_mtim.tv_sec), static_cast<std::uint64_t>(s.st_mtim.tv_nsec)})
    stamp = mix(stamp ^ part);
  return stamp;
}

}  // namespace

std::uint64_t file_stamp(const std::filesystem::path& path) {
  if (path.empty()) return 0;
  std::uint64_t stamp = stamp_of(path);
  if (stamp == 0) return 0;
  const auto add = [&](const std::filesystem::path& file) {
    stamp += mix(stamp_of(file) ^ mix(std::hash<std::string>()(file.filename().string())));  // in no order
  };
  for (const std::filesystem::path& shard : model::shard_files(path))
    if (shard != path) add(shard);
  std::error_code error;  // no directory, or one that cannot be read: it has no entries
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    add(at->path());
  return stamp;
}

}  // namespace flyball::fleet
