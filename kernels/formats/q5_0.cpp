// GGUF Q5_0: Q4_0 with a fifth bit per value, all of them before the nibbles. value = d * (q - 16)
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ5_0 {
  static constexpr DType kType = DType::q5_0;
  std::uint16_t d;  // f16
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// q: [32], 0..31
void quants(const BlockQ5_0& b, std::uint8_t* q) noexcept {
  unpack_nibbles(b.qs, q);
  add_fifth_bits(b.qh, q);
}

void dequantize_block(const BlockQ5_0& b, float* out) noexcept {
  std::uint8_t q[32];
  quants(b, q);
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i] - 16);
}

void quantize_block(const float* x, BlockQ5_0& b) noexcept {
  // The extreme value maps to -16, which the levels hold exactly; +16 they do not.
  b.d = scale_to_f16(extreme(x, 32) / -16.0F);
  const float id = inverse(f16_to_f32(b.d));
  std::uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::uint8_t>(clamp_round(x[i] * id, -16, 15) + 16);
  pack_nibbles(q, b.qs);
  pack_fifth_bits(q, b.qh);
}

// [R] f16 d | [R] quads of fifth bits (bit j of a byte belongs to quad j) | 4 x [R] quads as Q4_0's
void pack_block(const BlockQ5_0& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  quants(b, q);
  w.field(&b.d, 2);
  w.single_bits(q, 4);
  w.nibbles(q);
}

}  // namespace

constinit const BlockFormat q5_0_format = block_format<BlockQ5_0>();

}  // namespace flyball::kernels
