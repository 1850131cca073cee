// MLX's affine quantization. A row's codes of 2, 3, 4, 6 or 8 bits are one little-endian stream: code i is
// its bits [i * bits, (i + 1) * bits), across bytes where 3 and 6 bits fall so. Every 32 or 64 codes share a
// scale and a bias, which stand apart from them: value = scale * code + bias.
// Source: ml-explore/mlx, mlx/backend/metal/kernels/quantized.h (get_pack_factor, get_bytes_per_pack,
// dequantize) and the page of mlx.core.quantize.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/formats/bf16.hpp"
#include "kernels/formats/dtype.hpp"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels {

inline constexpr std::uint32_t kAffineStep =
    32;  // codes that end on a byte at every width, and divide a group

// in: 4 * bits bytes. q: [32]
inline void affine_codes(std::uint32_t bits, const std::uint8_t* in, std::uint8_t* q) noexcept {
  const std::uint32_t mask = (1U << bits) - 1;
  std::uint32_t held = 0, n_held = 0;  // bits that were read and not yet given out
  for (std::uint32_t i = 0; i < kAffineStep; ++i) {
    if (n_held < bits) {
      held |= std::uint32_t{*in++} << n_held;
      n_held += 8;
    }
    q[i] = static_cast<std::uint8_t>(held & mask);
    held >>= bits;
    n_held -= bits;
  }
}

// The other way. q: [32] below 1 << bits
inline void pack_affine_codes(std::uint32_t bits, const std::uint8_t* q, std::uint8_t* out) noexcept {
  std::uint32_t held = 0, n_held = 0;
  for (std::uint32_t i = 0; i < kAffineStep; ++i) {
    held |= std::uint32_t{q[i]} << n_held;
    n_held += bits;
    if (n_held < 8) continue;
    *out++ = static_cast<std::uint8_t>(held);
    held >>= 8;
    n_held -= 8;
  }
}

// Element i of scales or biases. type: f32, f16 or bf16
inline float affine_scale(DType type, const std::byte* values, std::size_t i) noexcept {
  if (type == DType::f32) {
    float value;
    std::memcpy(&value, values + 4 * i, sizeof value);
    return value;
  }
  std::uint16_t half;
  std::memcpy(&half, values + 2 * i, sizeof half);
  return type == DType::f16 ? f16_to_f32(half) : bf16_to_f32(half);
}

// Rounded once: the product is exact in double, so that contracting it with the sum changes nothing.
inline float affine_value(float scale, std::uint8_t code, float bias) noexcept {
  return static_cast<float>(static_cast<double>(scale) * code + static_cast<double>(bias));
}

}  // namespace flyball::kernels
