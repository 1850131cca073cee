// bfloat16 as a storage type: the upper half of an f32. Scalar, exact, once.
#pragma once

#include <bit>
#include <cstdint>

namespace flyball::kernels {

constexpr float bf16_to_f32(std::uint16_t h) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

// Rounds to nearest even; NaNs are made quiet.
constexpr std::uint16_t f32_to_bf16(float f) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace flyball::kernels
