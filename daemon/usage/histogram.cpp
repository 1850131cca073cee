#include "daemon/usage/histogram.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

namespace flyball::usage {

std::size_t Histogram::class_of(std::uint64_t value) noexcept {
  if (value < 8) return static_cast<std::size_t>(value);
  const auto octave = static_cast<std::size_t>(std::bit_width(value)) - 1;  // from 3 on
  const std::size_t quarter = value >> (octave - 2) & 3;
  return std::min(8 + (octave - 3) * 4 + quarter, kClasses - 1);
}

std::uint64_t Histogram::upper_end(std::size_t index) noexcept {
  if (index < 8) return index;
  const std::size_t octave = 3 + (index - 8) / 4, quarter = (index - 8) % 4;
  return ((5 + quarter) << (octave - 2)) - 1;
}

void Histogram::add(std::uint64_t value) {
  ++counts_[class_of(value)];
  ++count_;
}

Histogram& Histogram::operator+=(const Histogram& other) {
  for (std::size_t i = 0; i < kClasses; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  return *this;
}

std::uint64_t Histogram::quantile(double q) const {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kClasses; ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) >= q * static_cast<double>(count_)) return upper_end(i);
  }
  return 0;
}

std::string Histogram::text() const {
  std::string out;
  for (std::size_t i = 0; i < kClasses; ++i)
    if (counts_[i] > 0)
      out += (out.empty() ? "" : " ") + std::to_string(i) + ":" + std::to_string(counts_[i]);
  return out;
}

Histogram Histogram::from(std::string_view text) {
  Histogram out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::size_t index = 0;
    std::uint64_t n = 0;
    const auto [colon, bad_index] = std::from_chars(at, end, index);
    if (bad_index != std::errc() || colon == end || *colon != ':' || index >= kClasses) return {};
    const auto [after, bad_count] = std::from_chars(colon + 1, end, n);
    if (bad_count != std::errc() || n > INT64_MAX || (after < end && *after != ' ')) return {};
    out.counts_[index] += n;
    out.count_ += n;
    at = after < end ? after + 1 : end;
  }
  return out;
}

}  // namespace flyball::usage
