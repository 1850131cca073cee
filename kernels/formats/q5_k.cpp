// GGUF Q5_K: Q4_K with a fifth bit per value. Bit s of qh[i] is the fifth bit of value i of sub-block s.
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/scale_min.hpp"

namespace flyball::kernels {
namespace {

struct BlockQ5_K {
  static constexpr DType kType = DType::q5_k;
  ScaleMinHead head;
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};

// q: [256], 0..31
void quants(const BlockQ5_K& b, std::uint8_t* q) noexcept {
  for (int s = 0; s < 8; ++s) {
    for (int i = 0; i < 32; ++i) {
      const int nibble = (b.qs[s / 2 * 32 + i] >> (s % 2 * 4)) & 0x0F;
      q[s * 32 + i] = static_cast<std::uint8_t>(nibble | (((b.qh[i] >> s) & 1) << 4));
    }
  }
}

void dequantize_block(const BlockQ5_K& b, float* out) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  dequantize_scale_mins(b.head, q, out);
}

void quantize_block(const float* x, BlockQ5_K& b) noexcept {
  std::uint8_t q[256];
  quantize_scale_mins(x, 31, b.head, q);
  pack_nibble_pairs(q, b.qs);
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int s = 0; s < 8; ++s) bits |= (q[s * 32 + i] >> 4) << s;
    b.qh[i] = static_cast<std::uint8_t>(bits);
  }
}

// The layout of Q4_K, with [R] quads of fifth bits (bit j of a byte belongs to quad j) after the mins.
void pack_block(const BlockQ5_K& b, RowWriter w) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  w.field(&b.head.d, 2);
  w.field(&b.head.dmin, 2);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(b.head.scales, s);
    w.field(&sm.scale, 1);
    w.field(&sm.min, 1);
    w.single_bits(q + 32 * s, 4);
    w.nibbles(q + 32 * s);
  }
}

}  // namespace

constinit const BlockFormat q5_k_format = block_format<BlockQ5_K>();

}  // namespace flyball::kernels
