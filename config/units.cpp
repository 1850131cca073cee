#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>

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
  // 010 is eight to readers of YAML 1.1: no number begins with a zero.
  if (text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') return std::nullopt;
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

// A rounded number, and whether nothing was lost.
struct Rounded {
  std::string text;
  std::uint64_t whole = 0;  // its digits before the point
  bool exact = true;
};

// value / factor with so many digits behind the point, zeros at the end left out. factor < 2^50.
Rounded rounded(std::uint64_t value, std::uint64_t factor, unsigned digits) {
  std::uint64_t scale = 1;
  for (unsigned i = 0; i < digits; ++i) scale *= 10;
  const std::uint64_t rest = value % factor * scale;
  const std::uint64_t fraction = rest / factor + (rest % factor >= factor - factor / 2 ? 1 : 0);
  Rounded out;
  out.whole = value / factor + fraction / scale;
  out.exact = rest % factor == 0;
  out.text = std::to_string(out.whole);
  std::string behind = std::to_string(fraction % scale);
  behind.insert(0, digits - std::min<std::size_t>(digits, behind.size()), '0');
  while (!behind.empty() && behind.back() == '0') behind.pop_back();
  if (!behind.empty()) out.text += "." + behind;
  return out;
}

// The digits that the rule for people gives value / factor.
Rounded for_people(std::uint64_t value, std::uint64_t factor) {
  if (Rounded out = rounded(value, factor, 2); out.whole < 1) return out;
  if (Rounded out = rounded(value, factor, 1); out.whole < 100) return out;
  return rounded(value, factor, 0);
}

struct PeoplesUnit {
  std::string_view name;
  std::uint64_t factor;
  std::uint64_t end;  // a number from here on takes the next unit
};
constexpr std::array kPeoplesSizes{PeoplesUnit{"KiB", 1ULL << 10, 1024}, PeoplesUnit{"MiB", 1ULL << 20, 1024},
                                   PeoplesUnit{"GiB", 1ULL << 30, 1024},
                                   PeoplesUnit{"TiB", 1ULL << 40, UINT64_MAX}};
constexpr std::uint64_t kMillisecond = 1'000, kExactBelow = kMillisecond / 10;  // microseconds
constexpr std::array kPeoplesTimes{PeoplesUnit{"ms", kMillisecond, 1000}, PeoplesUnit{"s", 1'000'000, 120},
                                   PeoplesUnit{"min", 60'000'000, 120},
                                   PeoplesUnit{"h", 3'600'000'000, UINT64_MAX}};

// The number and its unit.
Rounded in_peoples_unit(std::uint64_t value, std::span<const PeoplesUnit> units) {
  for (const PeoplesUnit& unit : units)
    if (Rounded out = for_people(value, unit.factor); out.whole < unit.end) {
      out.text += " " + std::string(unit.name);
      return out;
    }
  return {};
}

Rounded rounded_size(std::uint64_t bytes) {
  if (bytes < 1024) return {std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"), bytes, true};
  return in_peoples_unit(bytes, kPeoplesSizes);
}

Rounded rounded_time(std::uint64_t us) {
  if (us >= kExactBelow) return in_peoples_unit(us, kPeoplesTimes);
  return {rounded(us, kMillisecond, 3).text + " ms", 0, true};
}

struct Signed {
  const char* sign;
  std::uint64_t magnitude;
};
Signed split(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? Signed{"-", ~bits + 1} : Signed{"", bits};
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

std::string size_text(std::uint64_t bytes) {
  return rounded_size(bytes).text;
}

std::string exact_size_text(std::uint64_t bytes) {
  Rounded out = rounded_size(bytes);
  return out.exact ? std::move(out.text) : std::to_string(bytes) + " bytes";
}

std::vector<std::string> sizes_to_compare(std::initializer_list<std::uint64_t> sizes) {
  std::vector<std::string> out;
  for (const std::uint64_t size : sizes) {
    const bool alike = std::ranges::any_of(
        sizes, [&](std::uint64_t other) { return other != size && size_text(other) == size_text(size); });
    out.push_back(alike ? exact_size_text(size) : size_text(size));
  }
  return out;
}

std::string time_text(std::int64_t microseconds) {
  const auto [sign, us] = split(microseconds);
  return sign + rounded_time(us).text;
}

std::string exact_time_text(std::int64_t microseconds) {
  const auto [sign, us] = split(microseconds);
  const Rounded out = rounded_time(us);
  return sign + (out.exact ? out.text : rounded(us, kMillisecond, 3).text + " ms");
}

std::string milliseconds_text(std::int64_t microseconds) {
  const auto [sign, us] = split(microseconds);
  return sign + (us < kExactBelow ? rounded(us, kMillisecond, 3) : for_people(us, kMillisecond)).text + " ms";
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
