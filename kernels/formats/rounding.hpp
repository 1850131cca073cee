// The rounding and clamping of the quantizers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/formats/f16.hpp"

namespace flyball::kernels {

// NaN (zero times an infinite inverse) gives lo. Clamped as float first: beyond int's range a cast is
// undefined.
inline int clamp_round(float v, int lo, int hi) noexcept {
  if (!(v > static_cast<float>(lo))) return lo;
  return v < static_cast<float>(hi) ? static_cast<int>(std::lrint(v)) : hi;
}

// A block's scale as stored; finite, whatever the values.
inline std::uint16_t scale_to_f16(float scale) noexcept {
  constexpr float kMaxF16 = 65504.0F;
  return f32_to_f16(std::clamp(scale, -kMaxF16, kMaxF16));
}

// The value of largest magnitude, sign kept.
inline float extreme(const float* x, int n) noexcept {
  float best = 0.0F;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  }
  return best;
}

inline float inverse(float d) noexcept {
  return d != 0.0F ? 1.0F / d : 0.0F;
}

// 32 values on levels 0..levels from the least to the greatest: value = d * q + m, d and m as f16.
inline void quantize_between(const float* x, int levels, std::uint16_t& d, std::uint16_t& m,
                             std::uint8_t* q) noexcept {
  const auto [least, greatest] = std::minmax_element(x, x + 32);
  d = scale_to_f16((*greatest - *least) / static_cast<float>(levels));
  m = scale_to_f16(*least);
  const float id = inverse(f16_to_f32(d)), min = f16_to_f32(m);
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::uint8_t>(clamp_round((x[i] - min) * id, 0, levels));
}

}  // namespace flyball::kernels
