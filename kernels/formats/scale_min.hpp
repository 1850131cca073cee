// The block that Q4_K and Q5_K share: 256 values in 8 sub-blocks of 32, each with a 6-bit scale and minimum.
// value = d * scale[s] * q - dmin * min[s]
#pragma once

#include <cstdint>

#include "kernels/formats/f16.hpp"
#include "kernels/formats/row_writer.hpp"

namespace flyball::kernels {

struct ScaleMin {
  std::uint8_t scale;  // 0..63
  std::uint8_t min;    // 0..63
};

// The 12 bytes shared by Q4_K and Q5_K. Sub-blocks 0..3: scale in the low 6 bits of byte s, min in those of
// byte s+4. Sub-blocks 4..7: low 4 bits in byte s+4 (scale low nibble, min high nibble), upper 2 bits in
// bits 6..7 of the bytes s-4 (scale) and s (min).
inline ScaleMin scale_min(const std::uint8_t* scales, int s) noexcept {
  if (s < 4) {
    return {static_cast<std::uint8_t>(scales[s] & 63), static_cast<std::uint8_t>(scales[s + 4] & 63)};
  }
  return {static_cast<std::uint8_t>((scales[s + 4] & 0x0F) | ((scales[s - 4] >> 6) << 4)),
          static_cast<std::uint8_t>((scales[s + 4] >> 4) | ((scales[s] >> 6) << 4))};
}

// Inverse of scale_min for all eight. scales: [12]
inline void pack_scale_mins(const ScaleMin* sm, std::uint8_t* scales) noexcept {
  for (int s = 0; s < 4; ++s) {
    scales[s] = static_cast<std::uint8_t>(sm[s].scale | ((sm[s + 4].scale >> 4) << 6));
    scales[s + 4] = static_cast<std::uint8_t>(sm[s].min | ((sm[s + 4].min >> 4) << 6));
    scales[s + 8] = static_cast<std::uint8_t>((sm[s + 4].scale & 0x0F) | ((sm[s + 4].min & 0x0F) << 4));
  }
}

// How such a block begins.
struct ScaleMinHead {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
};

// q: [256], as the format has them
inline void dequantize_scale_mins(const ScaleMinHead& head, const std::uint8_t* q, float* out) noexcept {
  const float d = f16_to_f32(head.d);
  const float dmin = f16_to_f32(head.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(head.scales, s);
    const float scale = d * static_cast<float>(sm.scale);
    const float min = dmin * static_cast<float>(sm.min);
    for (int i = 0; i < 32; ++i) out[s * 32 + i] = scale * static_cast<float>(q[s * 32 + i]) - min;
  }
}

// The head, and q: [256] on 0..levels.
void quantize_scale_mins(const float* x, int levels, ScaleMinHead& head, std::uint8_t* q) noexcept;

// 32 bytes hold two sub-blocks: the even one in the low nibbles, the odd one in the high nibbles. qs: [128]
inline void pack_nibble_pairs(const std::uint8_t* q, std::uint8_t* qs) noexcept {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      const int lo = q[pair * 64 + i] & 0x0F;
      const int hi = q[pair * 64 + 32 + i] & 0x0F;
      qs[pair * 32 + i] = static_cast<std::uint8_t>(lo | (hi << 4));
    }
  }
}

}  // namespace flyball::kernels
