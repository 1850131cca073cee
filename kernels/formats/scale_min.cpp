#include "kernels/formats/scale_min.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct Line {
  float scale = 0.0F;  // >= 0
  float min = 0.0F;    // >= 0; value = scale * q - min
};

// Best scale and min for n values on levels 0..levels: for a few scales around (max - min) / levels, round,
// then solve the 2x2 least squares for scale and min at those levels, and keep the pair of least squared
// error.
Line fit_line(const float* x, int n, int levels) noexcept {
  float lo = 0.0F;  // the formats hold only minima <= 0
  float hi = 0.0F;
  for (int i = 0; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  if (hi == lo) return {};
  Line best{(hi - lo) / static_cast<float>(levels), -lo};
  float best_error = INFINITY;
  constexpr float kWidths[] = {1.0F, 0.97F, 0.94F, 0.91F, 0.88F, 0.85F};
  for (const float width : kWidths) {
    const Line trial{best_error == INFINITY ? best.scale : width * (hi - lo) / static_cast<float>(levels),
                     -lo * width};
    const float id = inverse(trial.scale);
    float sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
    for (int i = 0; i < n; ++i) {
      const auto q = static_cast<float>(clamp_round((x[i] + trial.min) * id, 0, levels));
      sum_q += q;
      sum_qq += q * q;
      sum_x += x[i];
      sum_qx += q * x[i];
    }
    const auto count = static_cast<float>(n);
    const float det = count * sum_qq - sum_q * sum_q;
    Line fitted = trial;
    if (det > 0.0F) {
      fitted.scale = (count * sum_qx - sum_q * sum_x) / det;
      fitted.min = (sum_q * sum_qx - sum_qq * sum_x) / det;
    }
    if (fitted.min < 0.0F) {
      fitted.min = 0.0F;
      if (sum_qq > 0.0F) fitted.scale = sum_qx / sum_qq;
    }
    if (!(fitted.scale > 0.0F)) continue;
    const float fitted_id = 1.0F / fitted.scale;
    float error = 0;
    for (int i = 0; i < n; ++i) {
      const auto q = static_cast<float>(clamp_round((x[i] + fitted.min) * fitted_id, 0, levels));
      const float e = fitted.scale * q - fitted.min - x[i];
      error += e * e;
    }
    if (error < best_error) {
      best_error = error;
      best = fitted;
    }
  }
  return best;
}

}  // namespace

void quantize_scale_mins(const float* x, int levels, ScaleMinHead& head, std::uint8_t* q) noexcept {
  Line fits[8];
  float max_scale = 0, max_min = 0;
  for (int s = 0; s < 8; ++s) {
    fits[s] = fit_line(x + s * 32, 32, levels);
    max_scale = std::max(max_scale, fits[s].scale);
    max_min = std::max(max_min, fits[s].min);
  }
  head.d = scale_to_f16(max_scale / 63.0F);
  head.dmin = scale_to_f16(max_min / 63.0F);
  const float d = f16_to_f32(head.d);
  const float dmin = f16_to_f32(head.dmin);
  ScaleMin sm[8];
  for (int s = 0; s < 8; ++s) {
    sm[s].scale = static_cast<std::uint8_t>(clamp_round(fits[s].scale * inverse(d), 0, 63));
    sm[s].min = static_cast<std::uint8_t>(clamp_round(fits[s].min * inverse(dmin), 0, 63));
    const float id = inverse(d * static_cast<float>(sm[s].scale));
    const float min = dmin * static_cast<float>(sm[s].min);
    for (int i = s * 32; i < s * 32 + 32; ++i) {
      q[i] = static_cast<std::uint8_t>(clamp_round((x[i] + min) * id, 0, levels));
    }
  }
  pack_scale_mins(sm, head.scales);
}

}  // namespace flyball::kernels
