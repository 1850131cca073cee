// How outcomes correct predictions: the latest ratios of actual to expected, so how far predictions are off
// in the middle, and in nine of ten cases. Ratios above 1 are outcomes worse than expected: they are of
// times, not of speeds. An improvement has those before it forgotten; after a change for the worse they are
// kept, and err on the safe side. Bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "daemon/predict/statistics/change_point.hpp"
#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {

class RatioWindow {
 public:
  static constexpr std::size_t kKept = 64;
  // So many are needed before they correct a fit. A fit learns from the same outcomes, and its first ratios
  // are those of its prior: three of them would correct once more what the fit has corrected already. They
  // also make a p90 of their own; until then one in ten is taken to be half as much again or more.
  static constexpr std::size_t kEnough = 8;
  // So many are needed where nothing else learns from outcomes: one may have met a cold disk.
  static constexpr std::size_t kEnoughAlone = 3;
  static constexpr double kFirstP90 = 1.5;
  // Ratios further off say that something else happened: an assumed ceiling may be off by four, and engines
  // reach a half or more of theirs.
  static constexpr double kFurthest = 16;

  RatioWindow() = default;
  explicit RatioWindow(std::size_t enough) : enough_(enough) {}

  void add(double actual, double expected) {
    if (!(actual > 0) || !(expected > 0)) return;
    ratios_.add(within(actual / expected));
    changes_.observed();
    if (has_improved() && changes_.changed()) {
      ratios_.keep_latest(kLevel);
      is_level_ = true;
    }
    sum_up();
  }
  // The expected values became `factor` times as large, by the observation that the latest ratio is of. The
  // ratios of a level that has just begun are those over the new values then.
  void refitted(double factor) {
    if (!begins_level() || !(factor > 0)) return;
    for (std::size_t age = 0; age < kLevel; ++age) ratios_.latest(age) = within(ratios_.latest(age) / factor);
    sum_up();
  }
  double median() const noexcept { return median_; }
  double p90() const noexcept { return p90_; }
  std::size_t seen() const noexcept { return ratios_.size(); }
  // All of them are of a level that has just begun.
  bool begins_level() const noexcept { return is_level_ && seen() == kLevel; }
  // There are enough, or they are of a new level.
  bool counts() const noexcept { return seen() >= enough_ || is_level_; }

 private:
  static double within(double ratio) noexcept { return std::clamp(ratio, 1 / kFurthest, kFurthest); }
  void sum_up() {
    if (!counts()) return;
    const auto sorted = ratios_.sorted();
    median_ = predict::median(sorted.values());
    p90_ = std::max(quantile(sorted.values(), 0.9), (seen() < kEnough ? kFirstP90 : 1) * median_);
  }
  bool has_improved() const {
    std::array<double, 2 * kLevel> levels{};
    if (seen() < levels.size()) return false;
    for (std::size_t age = 0; age < levels.size(); ++age) levels[age] = ratios_.latest(age);
    return levels[0] < levels[kLevel] && has_changed(levels);
  }

  std::size_t enough_ = kEnough;
  Window<double, kKept> ratios_;
  bool is_level_ = false;  // the oldest of them began a level
  Changes changes_;
  double median_ = 1, p90_ = kFirstP90;
};

}  // namespace flyball::predict
