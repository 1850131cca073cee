// GGUF Q4_K: a head of scales and minima (scale_min.hpp), then 32 bytes for every two of its sub-blocks.
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/scale_min.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ4_K {
  static constexpr DType kType = DType::q4_k;
  ScaleMinHead head;
  std::uint8_t qs[128];
};

// q: [256], 0..15
void quants(const BlockQ4_K& b, std::uint8_t* q) noexcept {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      q[pair * 64 + i] = b.qs[pair * 32 + i] & 0x0F;
      q[pair * 64 + 32 + i] = b.qs[pair * 32 + i] >> 4;
    }
  }
}

void dequantize_block(const BlockQ4_K& b, float* out) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  dequantize_scale_mins(b.head, q, out);
}

void quantize_block(const float* x, BlockQ4_K& b) noexcept {
  std::uint8_t q[256];
  quantize_scale_mins(x, 15, b.head, q);
  pack_nibble_pairs(q, b.qs);
}

// [R] f16 d | [R] f16 dmin | 8 steps of: [R] u8 scale | [R] u8 min | 4 x [R] quads as Q4_0's
void pack_block(const BlockQ4_K& b, RowWriter w) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  w.field(&b.head.d, 2);
  w.field(&b.head.dmin, 2);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(b.head.scales, s);
    w.field(&sm.scale, 1);
    w.field(&sm.min, 1);
    w.nibbles(q + 32 * s);
  }
}

}  // namespace

constinit const BlockFormat q4_k_format = block_format<BlockQ4_K>();

}  // namespace flyball::kernels
