// GGUF Q4_0: 32 values, one f16 scale. Byte i holds value i in its low and value i+16 in its high nibble.
// value = d * (q - 8)
#pragma once

#include <cstdint>

#include "kernels/formats/block_layout.h"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels {

struct BlockQ4_0 {
  std::uint16_t d;  // f16
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == FLYBALL_Q4_0_FILE_BYTES);

// q: [32], 0..15
inline void quants(const BlockQ4_0& b, std::uint8_t* q) noexcept {
  for (int i = 0; i < 16; ++i) {
    q[i] = b.qs[i] & 0x0F;
    q[i + 16] = b.qs[i] >> 4;
  }
}

inline void dequantize_block(const BlockQ4_0& b, float* out) noexcept {
  std::uint8_t q[32];
  quants(b, q);
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i] - 8);
}

}  // namespace flyball::kernels
