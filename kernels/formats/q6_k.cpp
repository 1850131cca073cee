// GGUF Q6_K: 256 values in 16 sub-blocks of 16, each with a signed 8-bit scale.
//   value = d * scale[s] * (q - 32)
// Each half of 128 values has 64 bytes of low nibbles and 32 bytes of upper bit pairs: values 0..31
// and 32..63 of the half are the low nibbles of bytes 0..63, values 64..127 the high ones; bits 2k..2k+1 of
// qh[i] belong to value 32k+i.
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/fit_symmetric.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ6_K {
  static constexpr DType kType = DType::q6_k;
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};

// q: [256], 0..63
void quants(const BlockQ6_K& b, std::uint8_t* q) noexcept {
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

void dequantize_block(const BlockQ6_K& b, float* out) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(b.scales[s]);
    for (int i = 0; i < 16; ++i) out[s * 16 + i] = scale * static_cast<float>(q[s * 16 + i] - 32);
  }
}

void quantize_block(const float* x, BlockQ6_K& b) noexcept {
  float scales[16];
  for (int s = 0; s < 16; ++s) scales[s] = fit_symmetric(x + s * 16, 32);
  b.d = scale_to_f16(extreme(scales, 16) / -128.0F);
  const float d = f16_to_f32(b.d);
  std::uint8_t q[256];
  for (int s = 0; s < 16; ++s) {
    b.scales[s] = static_cast<std::int8_t>(clamp_round(scales[s] * inverse(d), -128, 127));
    const float id = inverse(d * static_cast<float>(b.scales[s]));
    for (int i = s * 16; i < s * 16 + 16; ++i) {
      q[i] = static_cast<std::uint8_t>(clamp_round(x[i] * id, -32, 31) + 32);
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      const std::uint8_t* v = q + half * 128 + i;  // values i, 32+i, 64+i, 96+i of the half
      b.ql[half * 64 + i] = static_cast<std::uint8_t>((v[0] & 0x0F) | ((v[64] & 0x0F) << 4));
      b.ql[half * 64 + 32 + i] = static_cast<std::uint8_t>((v[32] & 0x0F) | ((v[96] & 0x0F) << 4));
      b.qh[half * 32 + i] = static_cast<std::uint8_t>((v[0] >> 4) | ((v[32] >> 4) << 2) |
                                                      ((v[64] >> 4) << 4) | ((v[96] >> 4) << 6));
    }
  }
}

// [R] f16 d | 8 steps of: [R] i8 scale of columns 0..15 | [R] i8 scale of 16..31 |
// 2 x [R] quads of upper bit pairs (quads 0..3, 4..7; bits 2(j%4)..) | 4 x [R] quads as Q4_0's
void pack_block(const BlockQ6_K& b, RowWriter w) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  w.field(&b.d, 2);
  for (int s = 0; s < 8; ++s) {
    w.field(&b.scales[2 * s], 1);
    w.field(&b.scales[2 * s + 1], 1);
    w.pairs(q + 32 * s, 4);
    w.nibbles(q + 32 * s);
  }
}

}  // namespace

constinit const BlockFormat q6_k_format = block_format<BlockQ6_K>();

}  // namespace flyball::kernels
