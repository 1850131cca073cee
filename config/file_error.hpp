// Why a file or directory cannot be read, with what the user can do about it.
#pragma once

#include <filesystem>
#include <string>

namespace flyball::config {

// "cannot be read: No such file or directory" for the errno of the call that failed. Where rights are missing
// it names this process's user and the owner; it asks the system for both, so it is called right after the
// failure.
std::string unreadable(const std::filesystem::path& path, int error);

}  // namespace flyball::config
