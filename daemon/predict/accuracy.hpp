// How far predictions of one quantity were off, the latest of them. Bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace flyball::predict {

class Accuracy {
 public:
  static constexpr std::size_t kKept = 64;

  // Any unit. p50, p90: as predicted.
  void add(double actual, double p50, double p90) {
    if (!(actual > 0)) return;
    errors_[next_] = std::abs(actual - p50) / actual;
    below_[next_] = actual <= p90;
    next_ = (next_ + 1) % kKept;
    seen_ = std::min(seen_ + 1, kKept);
  }
  std::size_t seen() const noexcept { return seen_; }
  // The median of |actual - p50| / actual. 0 of none.
  double error() const {
    if (seen_ == 0) return 0;
    auto sorted = errors_;
    std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(seen_));
    return (sorted[(seen_ - 1) / 2] + sorted[seen_ / 2]) / 2;
  }
  // The share that was at most p90; nine in ten, if predictions are right. 0 of none.
  double coverage() const {
    if (seen_ == 0) return 0;
    const auto end = below_.begin() + static_cast<std::ptrdiff_t>(seen_);
    return static_cast<double>(std::count(below_.begin(), end, true)) / static_cast<double>(seen_);
  }

 private:
  std::array<double, kKept> errors_{};
  std::array<bool, kKept> below_{};
  std::size_t next_ = 0, seen_ = 0;
};

}  // namespace flyball::predict
