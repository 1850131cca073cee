// Whether a model's files are still those that were loaded.
#pragma once

#include <cstdint>
#include <filesystem>

namespace flyball::fleet {

// Of a file its number, size and time; of a directory its own and, by name, those of what lies in it: a
// directory's time does not tell of a file in it that was written over. 0: there is nothing.
std::uint64_t file_stamp(const std::filesystem::path& path);

}  // namespace flyball::fleet
