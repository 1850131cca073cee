// Rotary position embedding in place [arXiv:2104.09864]. Included by ops_<isa>.cpp, after a simd_*.hpp.
// Plain loops: a token's heads are a few thousand values, less than a thousandth of its matmuls.
#include <cstddef>
#include <cstdint>

#include "kernels/formats/rope_style.hpp"

namespace flyball::kernels::cpu {
namespace {

void rope(float* x, std::uint32_t n_heads, std::uint32_t head_dim, std::uint32_t rope_dim,
          const float* cos_sin, RopeStyle style) {
  const std::uint32_t pairs = rope_dim / 2;
  // Pair i is (i * step, i * step + apart).
  const std::uint32_t step = style == RopeStyle::interleaved ? 2 : 1;
  const std::uint32_t apart = style == RopeStyle::interleaved ? 1 : pairs;
  for (std::uint32_t h = 0; h < n_heads; ++h, x += head_dim) {
    for (std::uint32_t i = 0; i < pairs; ++i) {
      const float a = x[i * step];
      const float b = x[i * step + apart];
      const float cosine = cos_sin[2 * i];
      const float sine = cos_sin[2 * i + 1];
      x[i * step] = a * cosine - b * sine;
      x[i * step + apart] = a * sine + b * cosine;
    }
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
