// Actual over expected, the latest of them: how far predictions are off in the middle, and in nine of ten
// cases. Ratios from before a change of level are forgotten. Bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "daemon/predict/change_point.hpp"

namespace flyball::predict {

class RatioWindow {
 public:
  static constexpr std::size_t kKept = 64;
  // So many are needed before they count. Until then predictions are taken as they are, and one in ten to be
  // half as much again or more; of an engine that was not measured EngineModel knows better.
  static constexpr std::size_t kEnough = 8;
  static constexpr double kFirstP90 = 1.5;
  // Ratios further off say that something else happened.
  static constexpr double kFurthest = 8;

  void add(double actual, double expected) {
    if (!(actual > 0) || !(expected > 0)) return;
    kept_[next_] = std::clamp(actual / expected, 1 / kFurthest, kFurthest);
    next_ = (next_ + 1) % kKept;
    seen_ = std::min(seen_ + 1, kKept);
    if (level_changed()) keep_level();
    if (seen_ < kEnough) {
      median_ = 1;
      p90_ = kFirstP90;
      return;
    }
    auto sorted = kept_;
    std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(seen_));
    median_ = (sorted[(seen_ - 1) / 2] + sorted[seen_ / 2]) / 2;
    // The rank that nine of ten further ones stay below.
    const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(seen_ + 1)));
    p90_ = std::max(sorted[std::min(rank, seen_) - 1], median_);
  }
  double median() const noexcept { return median_; }
  double p90() const noexcept { return p90_; }
  std::size_t seen() const noexcept { return seen_; }

 private:
  double latest(std::size_t age) const noexcept { return kept_[(next_ + kKept - 1 - age) % kKept]; }
  bool level_changed() const {
    std::array<double, 2 * kLevel> levels{};
    if (seen_ < levels.size()) return false;
    for (std::size_t age = 0; age < levels.size(); ++age) levels[age] = latest(age);
    return has_changed(levels);
  }
  void keep_level() {
    std::array<double, kKept> kept{};
    for (std::size_t i = 0; i < kLevel; ++i) kept[i] = latest(kLevel - 1 - i);
    kept_ = kept;
    next_ = seen_ = kLevel;
  }

  std::array<double, kKept> kept_{};
  std::size_t next_ = 0, seen_ = 0;
  double median_ = 1, p90_ = kFirstP90;
};

}  // namespace flyball::predict
