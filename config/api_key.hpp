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

// The one place that a `key` names. Nothing has been read.
struct KeySource {
  enum class Kind : std::uint8_t { file, env, credential } kind = Kind::file;
  std::string name;  // file: its path, absolute or relative to the working directory
  bool operator==(const KeySource&) const = default;
};
// The source in a `key` that has passed check_shape(). Relative files are relative to `base`. config_invalid:
// not exactly one source, or a file below a home directory that nobody has.
Result<KeySource> as_key_source(const Node& node, const std::filesystem::path& base);
// The key itself: kMinKeyBytes to kMaxKeyBytes printable bytes. config_invalid or io_error, with the file.
Result<std::string> read_key(const KeySource& source);

// Reads the key that a `key` without findings names, and adds its digest, or the finding why it cannot be
// read. `path` names the node; relative files are relative to `base`.
void add_key(std::vector<Sha256>& keys, const Node& source, const std::string& path,
             const std::filesystem::path& base, Findings& findings);

}  // namespace flyball::config
