// The file system under the folder of models: folders and small files that every user may read, digests
// in sha256sum's form, and room on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::hub {

// Makes the folder and those above it, each with mode 0755 whatever the umask: the daemon may run as another
// user.
Result<void> make_folders(const std::filesystem::path& folder);
// FILE.new, which write_whole() gives the file's name at its end.
std::filesystem::path unfinished(const std::filesystem::path& file);
// The whole text or the file as it was, whenever the process is killed. Mode 0644.
Result<void> write_whole(const std::filesystem::path& file, std::string_view text);
// Brings the names in a folder to the disk.
Result<void> sync_folder(const std::filesystem::path& folder);
// Free space of the disk that the path lies on, or will lie on.
Result<std::uint64_t> free_bytes(std::filesystem::path path);

// The entries of a folder, in name order; none where it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// FILE.sha256, which `sha256sum -c` reads.
std::filesystem::path digest_file(const std::filesystem::path& file);
Result<void> write_digest(const std::filesystem::path& file, const std::string& sha256);
// "" where there is none, or it names another file.
std::string written_digest(const std::filesystem::path& file);

Error system_error(const std::filesystem::path& path, const std::string& act, int error);

}  // namespace flyball::hub
