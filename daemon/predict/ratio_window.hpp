// Actual over expected, the latest of them: how far predictions are off in the middle, and in nine of ten
// cases. An improvement has those before it forgotten; after a change for the worse they are kept, and err on
// the safe side. Bounded.
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
    changes_.observed();
    if (has_improved() && changes_.changed()) keep_level();
    sum_up();
  }
  // The expected values became `factor` times as large, by the observation that the latest ratio is of. The
  // ratios of a level that has just begun are those over the new values then.
  void refitted(double factor) {
    if (!is_level_ || seen_ != kLevel || !(factor > 0)) return;
    for (std::size_t i = 0; i < seen_; ++i)
      kept_[i] = std::clamp(kept_[i] / factor, 1 / kFurthest, kFurthest);
    sum_up();
  }
  double median() const noexcept { return median_; }
  double p90() const noexcept { return p90_; }
  std::size_t seen() const noexcept { return seen_; }
  // There are enough, or they are of a new level.
  bool counts() const noexcept { return seen_ >= kEnough || is_level_; }

 private:
  void sum_up() {
    if (!counts()) return;
    auto sorted = kept_;
    std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(seen_));
    median_ = (sorted[(seen_ - 1) / 2] + sorted[seen_ / 2]) / 2;
    if (seen_ < kEnough) {
      p90_ = std::max(sorted[seen_ - 1], kFirstP90 * median_);
      return;
    }
    // The rank that nine of ten further ones stay below.
    const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(seen_ + 1)));
    p90_ = std::max(sorted[std::min(rank, seen_) - 1], median_);
  }
  double latest(std::size_t age) const noexcept { return kept_[(next_ + kKept - 1 - age) % kKept]; }
  bool has_improved() const {
    std::array<double, 2 * kLevel> levels{};
    if (seen_ < levels.size()) return false;
    for (std::size_t age = 0; age < levels.size(); ++age) levels[age] = latest(age);
    return latest(0) < latest(kLevel) && has_changed(levels);
  }
  void keep_level() {
    std::array<double, kKept> kept{};
    for (std::size_t i = 0; i < kLevel; ++i) kept[i] = latest(kLevel - 1 - i);
    kept_ = kept;
    next_ = seen_ = kLevel;
    is_level_ = true;
  }

  std::array<double, kKept> kept_{};
  std::size_t next_ = 0, seen_ = 0;
  bool is_level_ = false;  // the oldest of them began a level
  Changes changes_;
  double median_ = 1, p90_ = kFirstP90;
};

}  // namespace flyball::predict
