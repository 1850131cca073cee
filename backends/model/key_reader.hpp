// Reads metadata keys beneath one architecture's prefix within their limits, keeping the first error so that
// a row of reads stays a row: what is returned after one is harmless, and nobody may use it before error() is
// looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "config/error.hpp"

namespace flyball::model {

class KeyReader {
 public:
  KeyReader(const Gguf& file, std::string prefix) : file_(&file), prefix_(std::move(prefix)) {}

  // Absent: fallback. 0 as fallback means the key is required.
  std::uint32_t count(std::string_view name, std::uint64_t limit, std::uint64_t fallback = 0);
  // Absent or 0: 0.
  std::uint32_t count_or_none(std::string_view name, std::uint64_t limit);
  // A count that some files give per layer; only files whose layers agree are read.
  std::uint32_t uniform_count(std::string_view name, std::uint64_t limit, std::uint64_t fallback);
  // Absent: fallback. Must lie in [low, high].
  float number(std::string_view name, float low, float high, float fallback);
  // The same, where 0 switches a feature off: llama.cpp's model saver writes every key that it knows.
  float number_or_off(std::string_view name, float low, float high, float fallback);
  float required_number(std::string_view name, float low, float high);
  std::string text(std::string_view name);  // absent: ""
  bool flag(std::string_view name, bool fallback);
  // A flag for each of n layers. nullopt where the key is absent or no array.
  std::optional<std::vector<bool>> flags(std::string_view name, std::uint32_t n);

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_->metadata().contains(key(name)); }
  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  const GgufArray* array(const std::string& key) const;
  std::uint32_t refuse(const std::string& key, const std::string& what);
  std::uint32_t keep(Error error);

  const Gguf* file_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace flyball::model
