#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace flyball::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array kDurations{Unit{"h", 3'600'000}, Unit{"m", 60'000}, Unit{"s", 1'000}, Unit{"ms", 1}};
constexpr std::array kSizes{Unit{"TiB", 1ULL << 40}, Unit{"GiB", 1ULL << 30}, Unit{"MiB", 1ULL << 20},
                            Unit{"KiB", 1ULL << 10}, Unit{"B", 1}};
constexpr std::uint64_t kLargest = INT64_MAX;  // so that every accepted value fits the signed types too

// A whole number and the rest of the text.
std::optional<std::pair<std::uint64_t, std::string_view>> leading_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return std::pair{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

template <std::size_t N>
std::optional<std::uint64_t> with_unit(std::string_view text, const std::array<Unit, N>& units) {
  const auto number = leading_number(text);
  if (!number) return std::nullopt;
  for (const Unit& unit : units)
    if (unit.name == number->second)
      return number->first > kLargest / unit.factor ? std::nullopt
                                                    : std::optional(number->first * unit.factor);
  return std::nullopt;
}

template <std::size_t N>
std::string in_largest_unit(std::uint64_t value, const std::array<Unit, N>& units) {
  for (const Unit& unit : units)
    if ((value != 0 && value % unit.factor == 0) || unit.factor == 1)
      return std::to_string(value / unit.factor) + std::string(unit.name);
  return {};
}

// Optimal string alignment distance: edits with swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto ms = with_unit(text, kDurations);
  if (!ms) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*ms));
}

std::optional<Size> parse_size(std::string_view text) {
  if (const auto number = leading_number(text); number && number->second == "%") {
    if (number->first < 1 || number->first > 100) return std::nullopt;
    return Size{0, static_cast<std::uint32_t>(number->first)};
  }
  const auto bytes = with_unit(text, kSizes);
  if (!bytes) return std::nullopt;
  return Size{*bytes, 0};
}

std::string format_duration(std::chrono::milliseconds value) {
  return in_largest_unit(static_cast<std::uint64_t>(std::max<std::int64_t>(value.count(), 0)), kDurations);
}

std::string format_bytes(std::uint64_t bytes) {
  return in_largest_unit(bytes, kSizes);
}

std::optional<std::string_view> closest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestGuess = 64;  // nobody mistypes more than that, and the distance is quadratic
  if (word.size() > kLongestGuess) return std::nullopt;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::optional<std::string_view> nearest;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace flyball::config
