// GGUF Q8_0: 32 signed bytes, one f16 scale. value = d * q
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ8_0 {
  static constexpr DType kType = DType::q8_0;
  std::uint16_t d;  // f16
  std::int8_t qs[32];
};

void dequantize_block(const BlockQ8_0& b, float* out) noexcept {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.qs[i]);
}

void quantize_block(const float* x, BlockQ8_0& b) noexcept {
  b.d = scale_to_f16(std::fabs(extreme(x, 32)) / 127.0F);
  const float id = inverse(f16_to_f32(b.d));
  for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<std::int8_t>(clamp_round(x[i] * id, -127, 127));
}

// [R] f16 d | 8 x [R] quads, signed
void pack_block(const BlockQ8_0& b, RowWriter w) noexcept {
  w.field(&b.d, 2);
  w.bytes(b.qs);
}

}  // namespace

constinit const BlockFormat q8_0_format = block_format<BlockQ8_0>();

}  // namespace flyball::kernels
