// GGUF Q4_0: 32 values, one f16 scale. Byte i holds value i in its low and value i+16 in its high nibble.
// value = d * (q - 8)
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ4_0 {
  static constexpr DType kType = DType::q4_0;
  std::uint16_t d;  // f16
  std::uint8_t qs[16];
};

void dequantize_block(const BlockQ4_0& b, float* out) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i] - 8);
}

void quantize_block(const float* x, BlockQ4_0& b) noexcept {
  // The extreme value maps to -8, which the sixteen levels hold exactly; +8 they do not.
  b.d = scale_to_f16(extreme(x, 32) / -8.0F);
  const float id = inverse(f16_to_f32(b.d));
  std::uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::uint8_t>(clamp_round(x[i] * id, -8, 7) + 8);
  pack_nibbles(q, b.qs);
}

// [R] f16 d | 4 x [R] quads: 2i in the low nibbles, 2i+1 in the high ones
void pack_block(const BlockQ4_0& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  w.field(&b.d, 2);
  w.nibbles(q);
}

}  // namespace

constinit const BlockFormat q4_0_format = block_format<BlockQ4_0>();

}  // namespace flyball::kernels
