// GGUF Q4_K: 256 values in 8 sub-blocks of 32, each with a 6-bit scale and a 6-bit minimum.
// value = d * scale[s] * q - dmin * min[s]
// 32 bytes of qs hold two sub-blocks: the even one in the low nibbles, the odd one in the high nibbles.
#pragma once

#include <cstdint>

#include "kernels/formats/block_layout.h"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels {

struct BlockQ4_K {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == FLYBALL_Q4_K_FILE_BYTES);

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

// q: [256], 0..15
inline void quants(const BlockQ4_K& b, std::uint8_t* q) noexcept {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      q[pair * 64 + i] = b.qs[pair * 32 + i] & 0x0F;
      q[pair * 64 + 32 + i] = b.qs[pair * 32 + i] >> 4;
    }
  }
}

inline void dequantize_block(const BlockQ4_K& b, float* out) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(b.scales, s);
    const float scale = d * static_cast<float>(sm.scale);
    const float min = dmin * static_cast<float>(sm.min);
    for (int i = 0; i < 32; ++i) out[s * 32 + i] = scale * static_cast<float>(q[s * 32 + i]) - min;
  }
}

}  // namespace flyball::kernels
