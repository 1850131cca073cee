// GGUF IQ4_NL: 32 values, one f16 scale, nibbles as Q4_0's. value = d * kIq4Values[q]
#include "kernels/formats/bits.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/fit_nibbles.hpp"

namespace flyball::kernels {
namespace {

struct BlockIQ4_NL {
  static constexpr DType kType = DType::iq4_nl;
  std::uint16_t d;  // f16
  std::uint8_t qs[16];
};

void dequantize_block(const BlockIQ4_NL& b, float* out) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Values[q[i]]);
}

void quantize_block(const float* x, BlockIQ4_NL& b) noexcept {
  b.d = scale_to_f16(fit_iq4(x));
  const float id = inverse(f16_to_f32(b.d));
  std::uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = nearest_iq4(x[i] * id);
  pack_nibbles(q, b.qs);
}

// [R] f16 d | 4 x [R] quads as Q4_0's
void pack_block(const BlockIQ4_NL& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  unpack_nibbles(b.qs, q);
  w.field(&b.d, 2);
  w.nibbles(q);
}

}  // namespace

constinit const BlockFormat iq4_nl_format = block_format<BlockIQ4_NL>();

}  // namespace flyball::kernels
