#include "kernels/formats/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/bf16.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/rounding.hpp"

namespace flyball::kernels {
namespace {

template <std::uint16_t (*kEncode)(float) noexcept>
void quantize_halves(const float* in, std::size_t cols, std::uint8_t* out) noexcept {
  for (std::size_t c = 0; c < cols; ++c) {
    const std::uint16_t h = kEncode(in[c]);
    std::memcpy(out + 2 * c, &h, sizeof(h));
  }
}

// Source: the page of mlx.core.quantize.
void quantize_affine(Affine type, const float* in, std::size_t cols, std::uint8_t* codes,
                     std::uint16_t* scales, std::uint16_t* biases) noexcept {
  constexpr float kLeastScale = 1e-7F;
  const int levels = (1 << type.bits) - 1;
  for (std::size_t c = 0; c < cols; c += type.group) {
    const auto [low, high] = std::minmax_element(in + c, in + c + type.group);
    const bool from_low = std::fabs(*low) > std::fabs(*high);
    const float step = std::max((*high - *low) / static_cast<float>(levels), kLeastScale);
    *scales = scale_to_f16(from_low ? step : -step);
    *biases = scale_to_f16(from_low ? *low : *high);
    const float scale = f16_to_f32(*scales++), bias = f16_to_f32(*biases++);
    for (std::size_t i = c; i < c + type.group; i += kAffineStep, codes += kAffineStep / 8 * type.bits) {
      std::uint8_t q[kAffineStep];
      for (std::size_t k = 0; k < kAffineStep; ++k)
        q[k] = static_cast<std::uint8_t>(clamp_round((in[i + k] - bias) / scale, 0, levels));
      pack_affine_codes(type.bits, q, codes);
    }
  }
}

}  // namespace

void quantize_row(DType type, const float* in, std::size_t cols, void* out, std::uint16_t* scales,
                  std::uint16_t* biases) noexcept {
  auto* bytes = static_cast<std::uint8_t*>(out);
  switch (type) {
    case DType::f32:
      std::memcpy(bytes, in, cols * sizeof(float));
      return;
    case DType::f16:
      quantize_halves<f32_to_f16>(in, cols, bytes);
      return;
    case DType::bf16:
      quantize_halves<f32_to_bf16>(in, cols, bytes);
      return;
    default:
      break;
  }
  if (const auto affine = affine_of(type)) return quantize_affine(*affine, in, cols, bytes, scales, biases);
  block_format_of(type).quantize_row(in, cols, bytes);
}

}  // namespace flyball::kernels
