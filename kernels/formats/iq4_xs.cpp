// GGUF IQ4_XS: 256 values in 8 sub-blocks of 32, each with a scale of six bits, 32 above the signed one, and
// nibbles as Q4_0's.
//   value = d * (scale[s] - 32) * kIq4Values[q]
// Nibble s of scales_l is the low four bits of scale s, bits 2s and 2s+1 of scales_h its upper ones.
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/fit_nibbles.hpp"

namespace flyball::kernels {
namespace {

struct BlockIQ4_XS {
  static constexpr DType kType = DType::iq4_xs;
  std::uint16_t d;  // f16
  std::uint16_t scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];
};

std::int8_t scale_of(const BlockIQ4_XS& b, int s) noexcept {
  const int low = b.scales_l[s / 2] >> (s % 2 * 4) & 0x0F, high = b.scales_h >> (2 * s) & 3;
  return static_cast<std::int8_t>((low | high << 4) - 32);
}

void dequantize_block(const BlockIQ4_XS& b, float* out) noexcept {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 8; ++s) {
    std::uint8_t q[32];
    unpack_nibbles(b.qs + 16 * s, q);
    const float scale = d * static_cast<float>(scale_of(b, s));
    for (int i = 0; i < 32; ++i) out[32 * s + i] = scale * static_cast<float>(kIq4Values[q[i]]);
  }
}

void quantize_block(const float* x, BlockIQ4_XS& b) noexcept {
  float scales[8];
  for (int s = 0; s < 8; ++s) scales[s] = fit_iq4(x + 32 * s);
  b.d = scale_to_f16(extreme(scales, 8) / -32.0F);
  const float d = f16_to_f32(b.d);
  b.scales_h = 0;
  for (std::uint8_t& low : b.scales_l) low = 0;
  for (int s = 0; s < 8; ++s) {
    const int scale = clamp_round(scales[s] * inverse(d), -32, 31), stored = scale + 32;
    b.scales_l[s / 2] = static_cast<std::uint8_t>(b.scales_l[s / 2] | (stored & 0x0F) << (s % 2 * 4));
    b.scales_h = static_cast<std::uint16_t>(b.scales_h | stored >> 4 << (2 * s));
    const float id = inverse(d * static_cast<float>(scale));
    std::uint8_t q[32];
    for (int i = 0; i < 32; ++i) q[i] = nearest_iq4(x[32 * s + i] * id);
    pack_nibbles(q, b.qs + 16 * s);
  }
}

// [R] f16 d | 8 steps of: [R] i8 scale | 4 x [R] quads as Q4_0's
void pack_block(const BlockIQ4_XS& b, RowWriter w) noexcept {
  w.field(&b.d, 2);
  for (int s = 0; s < 8; ++s) {
    const std::int8_t scale = scale_of(b, s);
    std::uint8_t q[32];
    unpack_nibbles(b.qs + 16 * s, q);
    w.field(&scale, 1);
    w.nibbles(q);
  }
}

}  // namespace

constinit const BlockFormat iq4_xs_format = block_format<BlockIQ4_XS>();

}  // namespace flyball::kernels
