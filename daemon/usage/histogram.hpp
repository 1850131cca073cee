// How often which length came, in classes that are a fifth wide: enough for percentiles, and small enough to
// keep for every app and day. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace flyball::usage {

class Histogram {
 public:
  void add(std::uint64_t value);
  Histogram& operator+=(const Histogram& other);
  std::uint64_t count() const noexcept { return count_; }
  // The upper end of the class in which the share q (0 to 1) of all values is reached: at most a fifth more
  // than the value itself. 0 where nothing came.
  std::uint64_t quantile(double q) const;

  // "12:3 40:1", the class and how many; "" where nothing came.
  std::string text() const;
  // What is no such text counts as nothing.
  static Histogram from(std::string_view text);

 private:
  // Values below 8 have a class each, above there are four to an octave; the last holds all from 2^25 on.
  static constexpr std::size_t kClasses = 8 + 22 * 4 + 1;
  static std::size_t class_of(std::uint64_t value) noexcept;
  static std::uint64_t upper_end(std::size_t index) noexcept;

  std::array<std::uint64_t, kClasses> counts_{};
  std::uint64_t count_ = 0;
};

}  // namespace flyball::usage
