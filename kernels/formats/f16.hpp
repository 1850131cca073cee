// IEEE 754 binary16 as a storage type: 1 sign, 5 exponent, 10 fraction bits. Scalar, exact, once.
#pragma once

#include <bit>
#include <cstdint>

namespace flyball::kernels {

// Exact; NaNs stay NaNs.
constexpr float f16_to_f32(std::uint16_t h) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1FU;
  const std::uint32_t fraction = h & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
  // Zero and subnormals: fraction * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

// Rounds to nearest even; beyond 65504 + half a step gives infinity.
constexpr std::uint16_t f32_to_f16(float f) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) {  // infinity, or a NaN made quiet
    const std::uint32_t nan = magnitude > 0x7F800000U ? 0x200U | ((magnitude >> 13) & 0x3FFU) : 0U;
    return static_cast<std::uint16_t>(sign | 0x7C00U | nan);
  }
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, units of 2^-24
    if (magnitude < 0x33000000U) return sign;
    const std::uint32_t shift = 126U - (magnitude >> 23);
    const std::uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t kept = fraction >> shift;
    const std::uint32_t rest = fraction & ((1U << shift) - 1U);
    const std::uint32_t half = 1U << (shift - 1U);
    const std::uint32_t up = rest > half || (rest == half && (kept & 1U) != 0) ? 1U : 0U;
    return static_cast<std::uint16_t>(sign | (kept + up));
  }
  const std::uint32_t rebased = magnitude - 0x38000000U;
  const std::uint32_t rounded = rebased + 0xFFFU + ((rebased >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

}  // namespace flyball::kernels
