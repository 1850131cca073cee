// The quantizers' choice among the values of nibble_values.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/nibble_values.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {

// The code of the value next to each of 256 points. Points stand 1 / kSteps apart, and the middle one is
// zero.
template <const NibbleValues& kValues, int kSteps>
inline constexpr auto kNearestCodes = [] {
  std::array<std::uint8_t, 256> codes{};
  for (int point = -128; point < 128; ++point) {
    const auto distance = [&](std::size_t i) {
      const int d = kSteps * kValues[i] - point;
      return d < 0 ? -d : d;
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < 16; ++i)
      if (distance(i) < distance(best)) best = i;
    codes[static_cast<std::size_t>(point + 128)] = static_cast<std::uint8_t>(best);
  }
  return codes;
}();

// The code of the value next to x, within half a point; of NaN that of the least value.
inline std::uint8_t nearest_iq4(float x) noexcept {
  return kNearestCodes<kIq4Values, 1>[static_cast<std::size_t>(clamp_round(x, -128, 127) + 128)];
}
inline std::uint8_t nearest_mxfp4(float x) noexcept {
  return kNearestCodes<kMxfp4Values, 8>[static_cast<std::size_t>(clamp_round(8 * x, -128, 127) + 128)];
}

// The scale of 32 values by least squares, at a few candidates around extreme / -127 and extreme / 113.
inline float fit_iq4(const float* x) noexcept {
  const float peak = extreme(x, 32);
  if (peak == 0.0F) return 0.0F;
  float best = peak / -127.0F, best_gain = -1.0F;
  constexpr float kLevels[] = {-127.0F, -120.0F, -113.0F, -134.0F, 113.0F, 106.0F, 120.0F};
  for (const float level : kLevels) {
    const float id = level / peak;
    float sum_qq = 0, sum_qx = 0;
    for (int i = 0; i < 32; ++i) {
      const auto q = static_cast<float>(kIq4Values[nearest_iq4(x[i] * id)]);
      sum_qq += q * q;
      sum_qx += q * x[i];
    }
    // At the least-squares scale qx/qq the squared error is |x|^2 - qx^2/qq.
    if (sum_qx * sum_qx > best_gain * sum_qq) {
      best_gain = sum_qx * sum_qx / sum_qq;
      best = sum_qx / sum_qq;
    }
  }
  return best;
}

}  // namespace flyball::kernels
