// Whether a model's files are still those that were loaded.
#pragma once

#include <cstdint>
#include <filesystem>

namespace flyball::fleet {

// A file's number, size and time, and those of its siblings where it is a shard of a split model; a
// directory's own and, by name, those of what lies in it: a directory's time does not tell of a file in it
// that was written over. 0: there is nothing.
std::uint64_t file_stamp(const std::filesystem::path& path);

}  // namespace flyball::fleet
