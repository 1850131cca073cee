// GGUF Q5_K: Q4_K with a fifth bit per value. Bit s of qh[i] is the fifth bit of value i of sub-block s.
// value = d * scale[s] * q - dmin * min[s]
#pragma once

#include <cstdint>

#include "kernels/formats/block_layout.h"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/q4_k.hpp"

namespace flyball::kernels {

struct BlockQ5_K {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == FLYBALL_Q5_K_FILE_BYTES);

// q: [256], 0..31
inline void quants(const BlockQ5_K& b, std::uint8_t* q) noexcept {
  for (int s = 0; s < 8; ++s) {
    for (int i = 0; i < 32; ++i) {
      const int nibble = (b.qs[s / 2 * 32 + i] >> (s % 2 * 4)) & 0x0F;
      q[s * 32 + i] = static_cast<std::uint8_t>(nibble | (((b.qh[i] >> s) & 1) << 4));
    }
  }
}

inline void dequantize_block(const BlockQ5_K& b, float* out) noexcept {
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
