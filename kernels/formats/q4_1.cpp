// GGUF Q4_1: 32 values, an f16 scale and an f16 minimum. Byte i holds value i in its low and value i+16 in
// its high nibble. value = d * q + m
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ4_1 {
  static constexpr DType kType = DType::q4_1;
  std::uint16_t d;  // f16
  std::uint16_t m;  // f16
  std::uint8_t qs[16];
};

void dequantize_block(const BlockQ4_1& b, float* out) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

void quantize_block(const float* x, BlockQ4_1& b) noexcept {
  std::uint8_t q[32];
  quantize_between(x, 15, b.d, b.m, q);
  pack_nibbles(q, b.qs);
}

// [R] f16 d | [R] f16 -m | 4 x [R] quads as Q4_0's
void pack_block(const BlockQ4_1& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  const auto negated = static_cast<std::uint16_t>(b.m ^ 0x8000U);
  w.field(&b.d, 2);
  w.field(&negated, 2);
  w.nibbles(q);
}

}  // namespace

constinit const BlockFormat q4_1_format = block_format<BlockQ4_1>();

}  // namespace flyball::kernels
