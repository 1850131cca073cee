// Rotary position embedding in place [arXiv:2104.09864]. Included by ops_<isa>.cpp, after a simd_*.hpp.
// Plain loops the compiler vectorises: a token's heads are a few thousand values, a thousandth of its
// matmuls.
#include <cstddef>
#include <cstdint>

#include "kernels/formats/rope_style.hpp"

namespace flyball::kernels::cpu {
namespace {

FLYBALL_INLINE void rope_interleaved(float* __restrict x, const float* __restrict cos_sin,
                                     std::uint32_t pairs) {
  for (std::uint32_t i = 0; i < 2 * pairs; i += 2) {
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = a * cos_sin[i] - b * cos_sin[i + 1];
    x[i + 1] = a * cos_sin[i + 1] + b * cos_sin[i];
  }
}

// first, second: [pairs], the halves of a head
FLYBALL_INLINE void rope_half(float* __restrict first, float* __restrict second,
                              const float* __restrict cos_sin, std::uint32_t pairs) {
  for (std::uint32_t i = 0; i < pairs; ++i) {
    const float a = first[i];
    const float b = second[i];
    first[i] = a * cos_sin[2 * i] - b * cos_sin[2 * i + 1];
    second[i] = a * cos_sin[2 * i + 1] + b * cos_sin[2 * i];
  }
}

void rope(float* x, std::uint32_t n_heads, std::uint32_t head_dim, std::uint32_t rope_dim,
          const float* cos_sin, RopeStyle style) {
  const std::uint32_t pairs = rope_dim / 2;
  for (std::uint32_t h = 0; h < n_heads; ++h, x += head_dim) {
    if (style == RopeStyle::interleaved) {
      rope_interleaved(x, cos_sin, pairs);
    } else {
      rope_half(x, x + pairs, cos_sin, pairs);
    }
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
