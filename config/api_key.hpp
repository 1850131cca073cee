// API keys in the operator's files, of apps and of the operator: where a key is read from, and its digest. No
// file holds a key itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/table.hpp"

namespace flyball::config {

using Sha256 = std::array<std::uint8_t, 32>;

// Shorter keys are guessed, longer ones need not be hashed.
inline constexpr std::size_t kMinKeyBytes = 8, kMaxKeyBytes = 512;

// Values of `key` and of `key_sha256`.
Shape key_source();
Shape key_digests();
std::vector<Sha256> as_digests(const Node& node);  // of a `key_sha256` without findings

// Reads the key that a `key` without findings names, and adds its digest, or the finding why it cannot be
// read. `path` names the node; relative files are relative to `base`.
void add_key(std::vector<Sha256>& keys, const Node& source, const std::string& path,
             const std::filesystem::path& base, Findings& findings);

}  // namespace flyball::config
