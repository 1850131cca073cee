// GGUF MXFP4: 32 values of E2M1 and one scale of E8M0, a power of two; nibbles as Q4_0's.
//   value = 2^(e - 128) * kMxfp4Values[q]: these are twice E2M1's, whose scale is 2^(e - 127)
// Source: OCP Microscaling Formats 1.0, sections 5.3.3 and 5.4.1; ggml reads e = 255, its NaN, as a number.
#include <algorithm>
#include <cmath>

#include "kernels/formats/bf16.hpp"
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/fit_nibbles.hpp"

namespace flyball::kernels {
namespace {

struct BlockMXFP4 {
  static constexpr DType kType = DType::mxfp4;
  std::uint8_t e;
  std::uint8_t qs[16];
};

// 2^(e - 128) as bf16, which has all of them; the first two are subnormal.
std::uint16_t scale_of(std::uint8_t e) noexcept {
  return static_cast<std::uint16_t>(e < 2 ? 0x20U << e : (e - 1U) << 7U);
}

void dequantize_block(const BlockMXFP4& b, float* out) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  const float d = bf16_to_f32(scale_of(b.e));
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kMxfp4Values[q[i]]);
}

// Tries the two scales around the peak and keeps the one with less error.
void quantize_block(const float* x, BlockMXFP4& b) noexcept {
  const float peak = std::fabs(extreme(x, 32));
  const int above = std::ilogb(std::clamp(peak, 0x1p-120F, 0x1p120F)) + 128 - 2;  // peak / scale is 4 to 8
  float least = -1;
  for (const int e : {above, above - 1}) {
    const auto tried = static_cast<std::uint8_t>(std::clamp(e, 0, 254));
    const float d = bf16_to_f32(scale_of(tried)), id = 1.0F / d;
    std::uint8_t q[32];
    float error = 0;
    for (int i = 0; i < 32; ++i) {
      q[i] = nearest_mxfp4(x[i] * id);
      const float off = x[i] * id - static_cast<float>(kMxfp4Values[q[i]]);
      error += off * off;
    }
    error *= d * d;
    if (least >= 0 && !(error < least)) continue;
    least = error;
    b.e = tried;
    pack_nibbles(q, b.qs);
  }
}

// [R] bf16 scale | 4 x [R] quads as Q4_0's
void pack_block(const BlockMXFP4& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  const std::uint16_t scale = scale_of(b.e);
  w.field(&scale, 2);
  w.nibbles(q);
}

}  // namespace

constinit const BlockFormat mxfp4_format = block_format<BlockMXFP4>();

}  // namespace flyball::kernels
