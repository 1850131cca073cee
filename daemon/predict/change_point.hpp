// Whether a series of observations has changed its level, as when a machine recovers: then those before the
// change say nothing of what comes. One or two that are far off are outliers, and change nothing. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
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

}  // namespace flyball::predict
