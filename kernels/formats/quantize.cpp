#include "kernels/formats/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/bf16.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/q4_0.hpp"
#include "kernels/formats/q4_k.hpp"
#include "kernels/formats/q5_k.hpp"
#include "kernels/formats/q6_k.hpp"
#include "kernels/formats/q8_0.hpp"

namespace flyball::kernels {
namespace {

// NaN (zero times an infinite inverse) gives lo. Clamped as float first: beyond int's range a cast is
// undefined.
int clamp_round(float v, int lo, int hi) noexcept {
  if (!(v > static_cast<float>(lo))) return lo;
  return v < static_cast<float>(hi) ? static_cast<int>(std::lrint(v)) : hi;
}

// A block's scale as stored; finite, whatever the values.
std::uint16_t scale_to_f16(float scale) noexcept {
  constexpr float kMaxF16 = 65504.0F;
  return f32_to_f16(std::clamp(scale, -kMaxF16, kMaxF16));
}

// The value of largest magnitude, sign kept.
float extreme(const float* x, int n) noexcept {
  float best = 0.0F;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  }
  return best;
}

float inverse(float d) noexcept {
  return d != 0.0F ? 1.0F / d : 0.0F;
}

void quantize_block(const float* x, BlockQ4_0& b) noexcept {
  // The extreme value maps to -8, which the sixteen levels hold exactly; +8 they do not.
  b.d = scale_to_f16(extreme(x, 32) / -8.0F);
  const float id = inverse(f16_to_f32(b.d));
  for (int i = 0; i < 16; ++i) {
    const int lo = clamp_round(x[i] * id, -8, 7) + 8;
    const int hi = clamp_round(x[i + 16] * id, -8, 7) + 8;
    b.qs[i] = static_cast<std::uint8_t>(lo | (hi << 4));
  }
}

void quantize_block(const float* x, BlockQ8_0& b) noexcept {
  b.d = scale_to_f16(std::fabs(extreme(x, 32)) / 127.0F);
  const float id = inverse(f16_to_f32(b.d));
  for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<std::int8_t>(clamp_round(x[i] * id, -127, 127));
}

struct Affine {
  float scale = 0.0F;  // >= 0
  float min = 0.0F;    // >= 0; value = scale * q - min
};

// Best scale and min for n values on levels 0..levels: for a few scales around (max - min) / levels, round,
// then solve the 2x2 least squares for scale and min at those levels, and keep the pair of least squared
// error.
Affine fit_affine(const float* x, int n, int levels) noexcept {
  float lo = 0.0F;  // the formats hold only minima <= 0
  float hi = 0.0F;
  for (int i = 0; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  if (hi == lo) return {};
  Affine best{(hi - lo) / static_cast<float>(levels), -lo};
  float best_error = INFINITY;
  constexpr float kWidths[] = {1.0F, 0.97F, 0.94F, 0.91F, 0.88F, 0.85F};
  for (const float width : kWidths) {
    const Affine trial{best_error == INFINITY ? best.scale : width * (hi - lo) / static_cast<float>(levels),
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
    Affine fitted = trial;
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

// The part Q4_K and Q5_K share: d, dmin, the eight 6-bit pairs, and q: [256] on 0..levels.
template <typename Block>
void quantize_affine(const float* x, int levels, Block& b, std::uint8_t* q) noexcept {
  Affine fits[8];
  float max_scale = 0, max_min = 0;
  for (int s = 0; s < 8; ++s) {
    fits[s] = fit_affine(x + s * 32, 32, levels);
    max_scale = std::max(max_scale, fits[s].scale);
    max_min = std::max(max_min, fits[s].min);
  }
  b.d = scale_to_f16(max_scale / 63.0F);
  b.dmin = scale_to_f16(max_min / 63.0F);
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
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
  pack_scale_mins(sm, b.scales);
}

void pack_nibbles(const std::uint8_t* q, std::uint8_t* qs) noexcept {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      const int lo = q[pair * 64 + i] & 0x0F;
      const int hi = q[pair * 64 + 32 + i] & 0x0F;
      qs[pair * 32 + i] = static_cast<std::uint8_t>(lo | (hi << 4));
    }
  }
}

void quantize_block(const float* x, BlockQ4_K& b) noexcept {
  std::uint8_t q[256];
  quantize_affine(x, 15, b, q);
  pack_nibbles(q, b.qs);
}

void quantize_block(const float* x, BlockQ5_K& b) noexcept {
  std::uint8_t q[256];
  quantize_affine(x, 31, b, q);
  pack_nibbles(q, b.qs);
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int s = 0; s < 8; ++s) bits |= (q[s * 32 + i] >> 4) << s;
    b.qh[i] = static_cast<std::uint8_t>(bits);
  }
}

// Best signed scale for 16 values on levels -32..31: least squares at a few candidates around extreme / -32.
float fit_symmetric(const float* x) noexcept {
  const float peak = extreme(x, 16);
  if (peak == 0.0F) return 0.0F;
  float best = peak / -32.0F;
  float best_gain = -1.0F;
  constexpr float kLevels[] = {-32.0F, -31.5F, -31.0F, -30.5F, -32.5F, -33.0F};
  for (const float level : kLevels) {
    const float id = level / peak;
    float sum_qq = 0, sum_qx = 0;
    for (int i = 0; i < 16; ++i) {
      const auto q = static_cast<float>(clamp_round(x[i] * id, -32, 31));
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

void quantize_block(const float* x, BlockQ6_K& b) noexcept {
  float scales[16];
  for (int s = 0; s < 16; ++s) scales[s] = fit_symmetric(x + s * 16);
  b.d = scale_to_f16(extreme(scales, 16) / -128.0F);
  const float d = f16_to_f32(b.d);
  std::uint8_t q[256];
  for (int s = 0; s < 16; ++s) {
    b.scales[s] = static_cast<std::int8_t>(clamp_round(scales[s] * inverse(d), -128, 127));
    const float id = inverse(d * static_cast<float>(b.scales[s]));
    for (int i = s * 16; i < s * 16 + 16; ++i) {
      q[i] = static_cast<std::uint8_t>(clamp_round(x[i] * id, -32, 31) + 32);
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      const std::uint8_t* v = q + half * 128 + i;  // values i, 32+i, 64+i, 96+i of the half
      b.ql[half * 64 + i] = static_cast<std::uint8_t>((v[0] & 0x0F) | ((v[64] & 0x0F) << 4));
      b.ql[half * 64 + 32 + i] = static_cast<std::uint8_t>((v[32] & 0x0F) | ((v[96] & 0x0F) << 4));
      b.qh[half * 32 + i] = static_cast<std::uint8_t>((v[0] >> 4) | ((v[32] >> 4) << 2) |
                                                      ((v[64] >> 4) << 4) | ((v[96] >> 4) << 6));
    }
  }
}

template <typename Block, std::size_t kValues>
void quantize_blocks(const float* in, std::size_t cols, std::uint8_t* out) noexcept {
  for (std::size_t c = 0; c < cols; c += kValues, out += sizeof(Block)) {
    Block block;
    quantize_block(in + c, block);
    std::memcpy(out, &block, sizeof(Block));
  }
}

template <std::uint16_t (*kEncode)(float) noexcept>
void quantize_halves(const float* in, std::size_t cols, std::uint8_t* out) noexcept {
  for (std::size_t c = 0; c < cols; ++c) {
    const std::uint16_t h = kEncode(in[c]);
    std::memcpy(out + 2 * c, &h, sizeof(h));
  }
}

// Source: the page of mlx.core.quantize.
void quantize_affine(kernels::Affine type, const float* in, std::size_t cols, std::uint8_t* codes,
                     std::uint16_t* scales, std::uint16_t* biases) noexcept {
  constexpr float kLeastScale = 1e-7F;
  const int levels = (1 << type.bits) - 1;
  for (std::size_t c = 0; c < cols; c += type.group) {
    const auto [low, high] = std::minmax_element(in + c, in + c + type.group);
    const bool from_low = std::fabs(*low) > std::fabs(*high);
    const float step = std::max((*high - *low) / static_cast<float>(levels), kLeastScale);
    *scales = scale_to_f16(from_low ? step : -step);
    *biases = scale_to_f16(from_low ? *low : *high);
    const float scale = f16_to_f32(*scales++), bias = f16_to_f32(*biases++);
    for (std::size_t i = c; i < c + type.group; i += kAffineStep, codes += kAffineStep / 8 * type.bits) {
      std::uint8_t q[kAffineStep];
      for (std::size_t k = 0; k < kAffineStep; ++k)
        q[k] = static_cast<std::uint8_t>(clamp_round((in[i + k] - bias) / scale, 0, levels));
      pack_affine_codes(type.bits, q, codes);
    }
  }
}

}  // namespace

void quantize_row(DType type, const float* in, std::size_t cols, void* out, std::uint16_t* scales,
                  std::uint16_t* biases) noexcept {
  auto* bytes = static_cast<std::uint8_t*>(out);
  if (const auto affine = affine_of(type)) return quantize_affine(*affine, in, cols, bytes, scales, biases);
  switch (type) {
    case DType::f32:
      std::memcpy(bytes, in, cols * sizeof(float));
      return;
    case DType::f16:
      quantize_halves<f32_to_f16>(in, cols, bytes);
      return;
    case DType::bf16:
      quantize_halves<f32_to_bf16>(in, cols, bytes);
      return;
    case DType::q4_0:
      quantize_blocks<BlockQ4_0, 32>(in, cols, bytes);
      return;
    case DType::q8_0:
      quantize_blocks<BlockQ8_0, 32>(in, cols, bytes);
      return;
    case DType::q4_k:
      quantize_blocks<BlockQ4_K, 256>(in, cols, bytes);
      return;
    case DType::q5_k:
      quantize_blocks<BlockQ5_K, 256>(in, cols, bytes);
      return;
    case DType::q6_k:
      quantize_blocks<BlockQ6_K, 256>(in, cols, bytes);
      return;
    default:
      return;  // affine, above
  }
}

}  // namespace flyball::kernels
