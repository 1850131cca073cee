// Names of a model's files where it is split into several: NAME-00001-of-00003.gguf, as llama.cpp's
// gguf-split writes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace flyball::model {

inline constexpr std::uint32_t kMaxShards = 1024;

struct ShardName {
  std::string stem;                     // NAME, with its directory
  std::uint32_t number = 0, count = 0;  // number: from 1
};

// nullopt: not the name of a shard.
inline std::optional<ShardName> shard_name(const std::filesystem::path& path) {
  constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
  constexpr std::size_t kDigits = 5, kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  const std::string name = path.string();
  if (name.size() < kTail) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  const auto number = [](std::string_view digits) -> std::uint32_t {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : 0;
  };
  ShardName out{name.substr(0, name.size() - kTail), number(tail.substr(1, kDigits)),
                number(tail.substr(1 + kDigits + kOf.size(), kDigits))};
  const bool sound = tail[0] == '-' && tail.substr(1 + kDigits, kOf.size()) == kOf && tail.ends_with(kEnd) &&
                     out.number > 0 && out.number <= out.count && out.count <= kMaxShards;
  return sound ? std::optional(std::move(out)) : std::nullopt;
}

inline std::filesystem::path shard_path(const ShardName& name, std::uint32_t number) {
  const auto padded = [](std::uint32_t n) {
    const std::string digits = std::to_string(n);
    return std::string(5 - digits.size(), '0') + digits;
  };
  return name.stem + "-" + padded(number) + "-of-" + padded(name.count) + ".gguf";
}

// All shards in order.
inline std::vector<std::filesystem::path> shards_of(const ShardName& name) {
  std::vector<std::filesystem::path> files;
  for (std::uint32_t i = 1; i <= name.count; ++i) files.push_back(shard_path(name, i));
  return files;
}

// The files of the model that `path` names: all shards where `path` has the name of one and another one lies
// beside it, else `path` alone. A merged model may have kept the name of its first shard.
inline std::vector<std::filesystem::path> shard_files(const std::filesystem::path& path) {
  const auto name = shard_name(path);
  if (!name) return {path};
  std::vector<std::filesystem::path> files = shards_of(*name);
  std::error_code ignored;  // a file that cannot be looked at is not beside it
  for (const std::filesystem::path& file : files)
    if (file != path && std::filesystem::exists(file, ignored)) return files;
  return {path};
}

}  // namespace flyball::model
