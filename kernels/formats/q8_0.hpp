// GGUF Q8_0: 32 signed bytes, one f16 scale. value = d * q
#pragma once

#include <cstdint>

#include "kernels/formats/block_layout.h"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels {

struct BlockQ8_0 {
  std::uint16_t d;  // f16
  std::int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == FLYBALL_Q8_0_FILE_BYTES);

inline void dequantize_block(const BlockQ8_0& b, float* out) noexcept {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.qs[i]);
}

}  // namespace flyball::kernels
