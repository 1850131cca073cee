// The scale of a sub-block that has one level more below zero than above it.
#pragma once

#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {

// Best signed scale for 16 values on levels -levels..levels - 1: least squares at a few candidates around
// extreme / -levels.
inline float fit_symmetric(const float* x, int levels) noexcept {
  const float peak = extreme(x, 16);
  if (peak == 0.0F) return 0.0F;
  const auto most = static_cast<float>(levels);
  float best = peak / -most, best_gain = -1.0F;
  for (const float beyond : {0.0F, -0.5F, -1.0F, -1.5F, 0.5F, 1.0F}) {
    const float id = -(most + beyond) / peak;
    float sum_qq = 0, sum_qx = 0;
    for (int i = 0; i < 16; ++i) {
      const auto q = static_cast<float>(clamp_round(x[i] * id, -levels, levels - 1));
      sum_qq += q * q;
      sum_qx += q * x[i];
    }
    // At the least-squares scale qx/qq the squared error is |x|^2 - qx^2/qq.
    if (sum_qq > 0.0F && sum_qx * sum_qx > best_gain * sum_qq) {
      best_gain = sum_qx * sum_qx / sum_qq;
      best = sum_qx / sum_qq;
    }
  }
  return best;
}

}  // namespace flyball::kernels
