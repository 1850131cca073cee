// The SHA-256 that the operator says a model has.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "backends/model/mapped_file.hpp"
#include "config/error.hpp"

namespace flyball::model {

std::string to_hex(std::span<const unsigned char> bytes);  // in small letters

// model_invalid unless the files' bytes, one file after the other, hash to these 64 hex digits. It reads the
// bytes where they are mapped: what is hashed is what is then used, whatever the path leads to by now. It
// says nothing of bytes that somebody writes into the same files later. path: for the message.
Result<void> check_sha256(std::span<const MappedFile> files, std::string_view expected,
                          const std::filesystem::path& path);

}  // namespace flyball::model
