// Durations and sizes as the house's files spell them: "500ms", "30s", "5m", "2h"; "64KiB", "6GiB", "80%".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flyball::config {

// A whole number and a unit (ms, s, m, h); nothing else, and nothing that overflows.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

struct Size {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 0;  // 1 to 100 when the size was given as a share; bytes is 0 then
};
// A whole number and B, KiB, MiB, GiB or TiB; or a share from 1% to 100%.
std::optional<Size> parse_size(std::string_view text);

std::string format_duration(
    std::chrono::milliseconds value);           // the largest unit that divides it: "90s", "1500ms"
std::string format_bytes(std::uint64_t bytes);  // the largest unit that divides it: "64KiB", "1000B"

// The candidate nearest to word by edit distance (insert, delete, replace, swap of neighbours), if near
// enough to be a slip of the pen: at most a third of the word's length, and at least one edit is always
// forgiven.
std::optional<std::string_view> closest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace flyball::config
