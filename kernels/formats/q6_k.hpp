// GGUF Q6_K: 256 values in 16 sub-blocks of 16, each with a signed 8-bit scale. value = d * scale[s] * (q -
// 32) Each half of 128 values has 64 bytes of low nibbles and 32 bytes of upper bit pairs: values 0..31
// and 32..63 of the half are the low nibbles of bytes 0..63, values 64..127 the high ones; bits 2k..2k+1 of
// qh[i] belong to value 32k+i.
#pragma once

#include <cstdint>

#include "kernels/formats/block_layout.h"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels {

struct BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockQ6_K) == FLYBALL_Q6_K_FILE_BYTES);

// q: [256], 0..63
inline void quants(const BlockQ6_K& b, std::uint8_t* q) noexcept {
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < 32; ++i) {
        const int nibble = (b.ql[half * 64 + k % 2 * 32 + i] >> (k / 2 * 4)) & 0x0F;
        const int upper = (b.qh[half * 32 + i] >> (2 * k)) & 3;
        q[half * 128 + k * 32 + i] = static_cast<std::uint8_t>(nibble | (upper << 4));
      }
    }
  }
}

inline void dequantize_block(const BlockQ6_K& b, float* out) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(b.scales[s]);
    for (int i = 0; i < 16; ++i) out[s * 16 + i] = scale * static_cast<float>(q[s * 16 + i] - 32);
  }
}

}  // namespace flyball::kernels
