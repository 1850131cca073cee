// Paths as the operator's files write them: one rule for every key that names a file, a folder or a socket.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "config/error.hpp"
#include "config/table.hpp"

namespace flyball::config {

inline constexpr std::int64_t kMaxPathBytes = 4000;     // PATH_MAX is 4096 with what we append
inline constexpr std::int64_t kMaxUnixPathBytes = 107;  // sockaddr_un::sun_path

// A text of 1 to max_bytes that begins with neither `~user` nor `$NAME`, which nobody expands here: taken as
// they stand they would name a folder called "$HOME". `./~user` names a file that is truly called so.
Shape path(std::int64_t max_bytes = kMaxPathBytes);

// The path that `written`, a text of path()'s shape, stands for in a file of the folder `base`. A leading
// `~/` is the home directory of the user that the process runs as: HOME or, as for services of the system,
// which have none, the password database's. Any other relative path is base's. config_invalid: the user has
// no home directory.
Result<std::filesystem::path> resolve_path(const std::string& written, const std::filesystem::path& base);

}  // namespace flyball::config
