// A bounded reader of the YAML subset that the house's files use, as a small value tree with the place of
// every node. One document; no tags, anchors or aliases; plain text keys; duplicate keys are errors. yaml-cpp
// stays in yaml.cpp and yaml_mistakes.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::config {

inline constexpr std::size_t kMaxYamlBytes = 1U << 20;
inline constexpr std::size_t kMaxYamlLineBytes = 4096;  // yaml-cpp scans some long lines in quadratic time
inline constexpr std::size_t kMaxYamlScalarBytes = 16384;
inline constexpr std::size_t kMaxYamlDepth = 32;  // well below what yaml-cpp's and our own recursion need
inline constexpr std::size_t kMaxYamlNodes = 50'000;

struct Mark {
  std::shared_ptr<const std::string> file;
  std::uint32_t line = 0, column = 0;  // from 1; column counts bytes
  std::string where() const;           // "config.yaml:3:5"
};

struct Entry;
struct Node {
  enum class Kind : std::uint8_t { null, scalar, list, map } kind = Kind::null;
  bool quoted = false;         // scalar in quotes or a block: always text
  std::string text;            // scalar
  std::vector<Node> items;     // list
  std::vector<Entry> entries;  // map, in the file's order
  Mark at;

  const Node* find(std::string_view key) const noexcept;  // map: the value of that key, or nullptr
};
struct Entry {
  std::string key;
  Mark at;
  Node value;
};

// config_invalid with file:line:column. An empty document is a null node.
Result<Node> parse_yaml(std::string_view text, std::string_view file_name);

// A drop-in over what stands: maps merge key by key, anything else is replaced.
void merge(Node& into, Node&& from);

// The whole of a regular file. io_error gives the cause, and the file in Error::where; more than max_bytes is
// config_invalid.
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxYamlBytes);
// The same of config.yaml, policy.yaml or a manifest: without it the configuration is wrong, config_invalid.
Result<std::string> read_operators_file(const std::filesystem::path& path);
// The same for a secret; config_invalid too where users beyond owner and group may read or write the file
// that was opened.
Result<std::string> read_secret_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace flyball::config
