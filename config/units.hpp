// Durations and sizes, as config files spell them ("500ms", "2h"; "64KiB", "80%"), and as text for people
// shows them ("1.8 s", "142 MiB").
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// ---- text for people --------------------------------------------------------------------------------------
//
// A number below 1 keeps two digits behind the point, below 100 one, and from 100 none; it is rounded half
// away from 0, and zeros at the end of its fraction are left out. A number that rounds up to the next unit is
// shown in that unit.

// "512 bytes", "22 KiB", "4.4 GiB", "142 MiB". Units change at 1024; TiB is the largest.
std::string size_text(std::uint64_t bytes);
// size_text(), or the plain number of bytes ("148393984 bytes") if size_text() had to round.
std::string exact_size_text(std::uint64_t bytes);
// Sizes that a reader compares, by size_text(); those that would look like another, different one are exact.
std::vector<std::string> sizes_to_compare(std::initializer_list<std::uint64_t> sizes);

// "0.84 ms", "12 ms", "1.8 s", "90 s", "3 min", "36 h". Units change at 1 s, 2 min and 2 h; a time below 0.1
// ms keeps its microseconds ("0.042 ms").
std::string time_text(std::int64_t microseconds);
// time_text(), or milliseconds ("1813.25 ms") if time_text() had to round.
std::string exact_time_text(std::int64_t microseconds);
// time_text() in milliseconds whatever the length, for times that stand beside each other: "1813 ms".
std::string milliseconds_text(std::int64_t microseconds);

// The candidate nearest to word by edit distance (insert, delete, replace, swap of neighbours), if near
// enough to be a slip of the pen: at most a third of the word's length, and at least one edit is always
// forgiven.
std::optional<std::string_view> closest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace flyball::config
