#include "kernels/formats/dequantize.hpp"

#include <cstdint>
#include <cstring>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/bf16.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/q4_0.hpp"
#include "kernels/formats/q4_k.hpp"
#include "kernels/formats/q5_k.hpp"
#include "kernels/formats/q6_k.hpp"
#include "kernels/formats/q8_0.hpp"

namespace flyball::kernels {
namespace {

// Blocks are copied out first: rows of a mapped file have no useful alignment.
template <typename Block, std::size_t kValues>
void dequantize_blocks(const std::uint8_t* bytes, std::size_t cols, float* out) noexcept {
  for (std::size_t c = 0; c < cols; c += kValues, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof(Block));
    dequantize_block(block, out + c);
  }
}

template <float (*kDecode)(std::uint16_t) noexcept>
void dequantize_halves(const std::uint8_t* bytes, std::size_t cols, float* out) noexcept {
  for (std::size_t c = 0; c < cols; ++c) {
    std::uint16_t h;
    std::memcpy(&h, bytes + 2 * c, sizeof(h));
    out[c] = kDecode(h);
  }
}

void dequantize_affine(Affine type, const SourceRows& row, std::size_t cols, float* out) noexcept {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row.data);
  std::uint8_t q[kAffineStep];
  for (std::size_t c = 0; c < cols; c += kAffineStep, codes += kAffineStep / 8 * type.bits) {
    affine_codes(type.bits, codes, q);
    const float scale = affine_scale(row.scale_type, row.scales, c / type.group);
    const float bias = affine_scale(row.scale_type, row.biases, c / type.group);
    for (std::size_t i = 0; i < kAffineStep; ++i) out[c + i] = affine_value(scale, q[i], bias);
  }
}

}  // namespace

void dequantize_row(DType type, const SourceRows& row, std::size_t cols, float* out) noexcept {
  if (const auto affine = affine_of(type)) return dequantize_affine(*affine, row, cols, out);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row.data);
  switch (type) {
    case DType::f32:
      std::memcpy(out, bytes, cols * sizeof(float));
      return;
    case DType::f16:
      dequantize_halves<f16_to_f32>(bytes, cols, out);
      return;
    case DType::bf16:
      dequantize_halves<bf16_to_f32>(bytes, cols, out);
      return;
    case DType::q4_0:
      dequantize_blocks<BlockQ4_0, 32>(bytes, cols, out);
      return;
    case DType::q8_0:
      dequantize_blocks<BlockQ8_0, 32>(bytes, cols, out);
      return;
    case DType::q4_k:
      dequantize_blocks<BlockQ4_K, 256>(bytes, cols, out);
      return;
    case DType::q5_k:
      dequantize_blocks<BlockQ5_K, 256>(bytes, cols, out);
      return;
    case DType::q6_k:
      dequantize_blocks<BlockQ6_K, 256>(bytes, cols, out);
      return;
    default:
      return;  // affine, above
  }
}

}  // namespace flyball::kernels
