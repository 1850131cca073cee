// Finds a change of level in a series of observations, as when a machine recovers. Observations before it say
// nothing of those to come. One or two that are far off are outliers, and change nothing. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace flyball::predict {

// So many observations in a row make a level: two happen by chance, and more would heal late.
inline constexpr std::size_t kLevel = 3;
// Levels that are nearer to each other than this may be noise of a loaded engine.
inline constexpr double kLevelsApart = 2;

// `latest`: values above 0, the latest first. The later level lies wholly above or below the one before it.
inline bool has_changed(std::span<const double, 2 * kLevel> latest) {
  const auto [least, most] = std::ranges::minmax(latest.first<kLevel>());
  const auto [least_before, most_before] = std::ranges::minmax(latest.last<kLevel>());
  return most * kLevelsApart <= least_before || least >= kLevelsApart * most_before;
}

// Says at a change whether the levels before it may be forgotten. Levels that alternate come again: a fit
// that forgot at each change would always expect the wrong one.
class Changes {
 public:
  // A machine that becomes slow and recovers changes twice. A third change within so many observations says
  // that the levels alternate.
  static constexpr std::uint64_t kCalm = 24;

  void observed() noexcept { ++observations_; }
  // The latest observation completes another level. True: the levels before it may be forgotten.
  bool changed() noexcept {
    const bool calm = before_latest_ == 0 || observations_ - before_latest_ >= kCalm;
    before_latest_ = latest_;
    latest_ = observations_;
    return calm;
  }

 private:
  std::uint64_t observations_ = 0, latest_ = 0, before_latest_ = 0;  // 0: none
};

}  // namespace flyball::predict
