#include "kernels/formats/dequantize.hpp"

#include <cstdint>
#include <cstring>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/bf16.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels {
namespace {

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
    default:
      break;
  }
  if (const auto affine = affine_of(type)) return dequantize_affine(*affine, row, cols, out);
  block_format_of(type).dequantize_row(bytes, cols, out);
}

}  // namespace flyball::kernels
