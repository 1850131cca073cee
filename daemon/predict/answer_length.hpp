// Tokens of an app's answers: the latest, and so the length to expect of the next. Bounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/predict/statistics/window.hpp"

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
    ++answers_;
    latest_.add(tokens);
    sorted_ = latest_.sorted();
  }
  // Answers so far: what is expected changes with it. It wraps.
  std::uint32_t seen() const noexcept { return answers_; }
  // declared, max_tokens: 0: not given. `so_far`: tokens that the answer already has; what comes out is
  // above.
  Expected expected(std::uint32_t declared, std::uint32_t max_tokens, std::uint32_t so_far = 0) const {
    Expected out;
    const std::span<const std::uint32_t> seen = sorted_.values();
    const std::span longer(std::upper_bound(seen.begin(), seen.end(), so_far), seen.end());
    if (seen.size() < kEnough) {
      out.median = declared > 0 ? declared : kDefault;
      out.p90 = 2 * out.median;
    } else if (!longer.empty()) {
      out = {median(longer), quantile(longer, 0.9)};
    }
    // Longer than any that was seen: as much again as a quarter of what is there.
    if (out.median <= so_far) out = {so_far + so_far / 4 + 1, 2 * so_far + 1};
    if (max_tokens > 0) out = {std::min(out.median, max_tokens), std::min(out.p90, max_tokens)};
    return {std::max(out.median, 1U), std::max({out.p90, out.median, 1U})};
  }

 private:
  std::uint32_t answers_ = 0;
  Window<std::uint32_t, kKept> latest_;
  Sorted<std::uint32_t, kKept> sorted_;
};

}  // namespace flyball::predict
