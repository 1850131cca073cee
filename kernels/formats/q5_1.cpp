// GGUF Q5_1: Q4_1 with a fifth bit per value, all of them before the nibbles. value = d * q + m
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ5_1 {
  static constexpr DType kType = DType::q5_1;
  std::uint16_t d;  // f16
  std::uint16_t m;  // f16
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// q: [32], 0..31
void quants(const BlockQ5_1& b, std::uint8_t* q) noexcept {
  unpack_nibbles(b.qs, q);
  add_fifth_bits(b.qh, q);
}

void dequantize_block(const BlockQ5_1& b, float* out) noexcept {
  std::uint8_t q[32];
  quants(b, q);
  const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

void quantize_block(const float* x, BlockQ5_1& b) noexcept {
  std::uint8_t q[32];
  quantize_between(x, 31, b.d, b.m, q);
  pack_nibbles(q, b.qs);
  pack_fifth_bits(q, b.qh);
}

// [R] f16 d | [R] f16 -m | [R] quads of fifth bits (bit j of a byte belongs to quad j) |
// 4 x [R] quads as Q4_0's
void pack_block(const BlockQ5_1& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  quants(b, q);
  const auto negated = static_cast<std::uint16_t>(b.m ^ 0x8000U);
  w.field(&b.d, 2);
  w.field(&negated, 2);
  w.single_bits(q, 4);
  w.nibbles(q);
}

}  // namespace

constinit const BlockFormat q5_1_format = block_format<BlockQ5_1>();

}  // namespace flyball::kernels
