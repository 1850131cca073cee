// Whether a model's files are still those that were loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace flyball::fleet {

// A file's number, size and time, and those of its siblings where it is a shard of a split model; a
// directory's own and, by name, those of what lies in it: a directory's time does not tell of a file in it
// that was written over. 0: there is nothing.
std::uint64_t file_stamp(const std::filesystem::path& path);

using FileStamps = std::map<std::string, std::uint64_t>;  // of models' files, by the models' ids

}  // namespace flyball::fleet
