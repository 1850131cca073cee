// GGUF Q3_K: 256 values in 16 sub-blocks of 16, each with a scale of six bits, 32 above the signed one.
//   value = d * (scale[s] - 32) * (q - 4)
// Value 128h + 32k + i: its lower two bits are bits 2k and 2k+1 of qs[32h + i], its third bit is bit 4h + k
// of hmask[i]. The low four bits of scale s are a nibble of byte s % 8 (the high one from 8 on), its upper
// ones bits 2(s / 4) and the next of byte 8 + s % 4.
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/fit_symmetric.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ3_K {
  static constexpr DType kType = DType::q3_k;
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];
  std::uint16_t d;  // f16
};

// q: [256], 0..7
void quants(const BlockQ3_K& b, std::uint8_t* q) noexcept {
  for (int h = 0; h < 2; ++h) {
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < 32; ++i) {
        const int lower = b.qs[32 * h + i] >> (2 * k) & 3, third = b.hmask[i] >> (4 * h + k) & 1;
        q[128 * h + 32 * k + i] = static_cast<std::uint8_t>(lower | third << 2);
      }
    }
  }
}

std::int8_t scale_of(const BlockQ3_K& b, int s) noexcept {
  const int low = b.scales[s % 8] >> (s / 8 * 4) & 0x0F, high = b.scales[8 + s % 4] >> (s / 4 * 2) & 3;
  return static_cast<std::int8_t>((low | high << 4) - 32);
}

void dequantize_block(const BlockQ3_K& b, float* out) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(scale_of(b, s));
    for (int i = 0; i < 16; ++i) out[16 * s + i] = scale * static_cast<float>(q[16 * s + i] - 4);
  }
}

void quantize_block(const float* x, BlockQ3_K& b) noexcept {
  float scales[16];
  for (int s = 0; s < 16; ++s) scales[s] = fit_symmetric(x + 16 * s, 4);
  b = {};
  b.d = scale_to_f16(extreme(scales, 16) / -32.0F);
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 16; ++s) {
    const int scale = clamp_round(scales[s] * inverse(d), -32, 31), stored = scale + 32;
    b.scales[s % 8] = static_cast<std::uint8_t>(b.scales[s % 8] | (stored & 0x0F) << (s / 8 * 4));
    b.scales[8 + s % 4] = static_cast<std::uint8_t>(b.scales[8 + s % 4] | stored >> 4 << (s / 4 * 2));
    const float id = inverse(d * static_cast<float>(scale));
    for (int at = 16 * s; at < 16 * s + 16; ++at) {
      const int q = clamp_round(x[at] * id, -4, 3) + 4, h = at / 128, k = at % 128 / 32, i = at % 32;
      b.qs[32 * h + i] = static_cast<std::uint8_t>(b.qs[32 * h + i] | (q & 3) << (2 * k));
      b.hmask[i] = static_cast<std::uint8_t>(b.hmask[i] | q >> 2 << (4 * h + k));
    }
  }
}

// [R] f16 d | 8 steps of: [R] i8 scale of columns 0..15 | [R] i8 scale of 16..31 |
// 2 x [R] quads of lower bit pairs (quads 0..3, 4..7; bits 2(j%4)..) | [R] quads of third bits
void pack_block(const BlockQ3_K& b, RowWriter w) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  w.field(&b.d, 2);
  for (int s = 0; s < 8; ++s) {
    const std::int8_t scales[2] = {scale_of(b, 2 * s), scale_of(b, 2 * s + 1)};
    w.field(&scales[0], 1);
    w.field(&scales[1], 1);
    w.pairs(q + 32 * s, 0);
    w.single_bits(q + 32 * s, 2);
  }
}

}  // namespace

constinit const BlockFormat q3_k_format = block_format<BlockQ3_K>();

}  // namespace flyball::kernels
