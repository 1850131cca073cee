// Tokens of an app's answers: the latest, and so the length to expect of the next. Bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace flyball::predict {

class AnswerLength {
 public:
  static constexpr std::size_t kKept = 64, kEnough = 3;
  // Of an app that has not been seen and whose manifest says nothing (workload.output_tokens).
  static constexpr std::uint32_t kDefault = 256;

  struct Expected {
    std::uint32_t median = kDefault, p90 = kDefault;
  };

  void answered(std::uint32_t tokens) {
    kept_[next_] = tokens;
    next_ = (next_ + 1) % kKept;
    seen_ = std::min(seen_ + 1, kKept);
    sorted_ = kept_;
    std::sort(sorted_.begin(), sorted_.begin() + static_cast<std::ptrdiff_t>(seen_));
  }
  // declared, max_tokens: 0: not given. `so_far`: tokens that the answer already has; what comes out is
  // above.
  Expected expected(std::uint32_t declared, std::uint32_t max_tokens, std::uint32_t so_far = 0) const {
    Expected out;
    const auto begin = sorted_.begin(), end = begin + static_cast<std::ptrdiff_t>(seen_);
    const auto longer = std::upper_bound(begin, end, so_far);
    if (seen_ < kEnough) {
      out.median = declared > 0 ? declared : kDefault;
      out.p90 = 2 * out.median;
    } else if (longer != end) {
      const auto at = [&](double q) {
        return *(longer + static_cast<std::ptrdiff_t>(q * static_cast<double>(end - longer - 1) + 0.5));
      };
      out = {at(0.5), at(0.9)};
    }
    // Longer than any that was seen: as much again as a quarter of what is there.
    if (out.median <= so_far) out = {so_far + so_far / 4 + 1, 2 * so_far + 1};
    if (max_tokens > 0) out = {std::min(out.median, max_tokens), std::min(out.p90, max_tokens)};
    return {std::max(out.median, 1U), std::max({out.p90, out.median, 1U})};
  }

 private:
  std::array<std::uint32_t, kKept> kept_{}, sorted_{};
  std::size_t next_ = 0, seen_ = 0;
};

}  // namespace flyball::predict
