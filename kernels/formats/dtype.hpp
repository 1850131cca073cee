// The element types a weight or KV tensor may have, and what a block of each is: how many values, how many
// bytes. What the bytes mean stands in kernels/formats/<type>.hpp, scalar, once. Layouts: ggml's GGUF block
// formats, and MLX's affine groups (affine.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/formats/block_layout.h"

namespace flyball::kernels {

enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
  affine2_g32,  // 2 bits a value, groups of 32
  affine2_g64,
  affine3_g32,
  affine3_g64,
  affine4_g32,
  affine4_g64,
  affine6_g32,
  affine6_g64,
  affine8_g32,
  affine8_g64,
};
inline constexpr std::size_t kDTypeCount = static_cast<std::size_t>(DType::affine8_g64) + 1;
// Those of GGUF files.
inline constexpr DType kAllDTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0,
                                       DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k};
// Those of MLX directories.
inline constexpr DType kAffineDTypes[] = {
    DType::affine2_g32, DType::affine2_g64, DType::affine3_g32, DType::affine3_g64, DType::affine4_g32,
    DType::affine4_g64, DType::affine6_g32, DType::affine6_g64, DType::affine8_g32, DType::affine8_g64};

// An affine type: each group of values along a row has a scale and a bias.
struct Affine {
  std::uint32_t bits, group;
};
constexpr std::optional<Affine> affine_of(DType t) noexcept {
  const auto format = static_cast<std::uint32_t>(t);
  if (format < FLYBALL_FORMAT_AFFINE) return std::nullopt;
  return Affine{.bits = FLYBALL_AFFINE_BITS(format), .group = FLYBALL_AFFINE_GROUP(format)};
}
static_assert(static_cast<int>(DType::q4_0) == FLYBALL_FORMAT_Q4_0 &&
              static_cast<int>(DType::q6_k) == FLYBALL_FORMAT_Q6_K &&
              static_cast<int>(DType::affine2_g32) == FLYBALL_FORMAT_AFFINE);
static_assert(affine_of(DType::affine3_g64)->bits == 3 && affine_of(DType::affine3_g64)->group == 64 &&
              affine_of(DType::affine6_g32)->bits == 6 && affine_of(DType::affine8_g32)->group == 32);

struct BlockShape {
  std::uint32_t values;  // values per block, along a row
  std::uint32_t bytes;   // bytes per block; of affine types the codes alone
};

constexpr BlockShape block_shape(DType t) noexcept {
  switch (t) {
    case DType::f32:
      return {1, 4};
    case DType::f16:
      return {1, 2};
    case DType::bf16:
      return {1, 2};
    case DType::q4_0:
      return {FLYBALL_Q4_0_VALUES, FLYBALL_Q4_0_FILE_BYTES};
    case DType::q8_0:
      return {FLYBALL_Q8_0_VALUES, FLYBALL_Q8_0_FILE_BYTES};
    case DType::q4_k:
      return {FLYBALL_Q4_K_VALUES, FLYBALL_Q4_K_FILE_BYTES};
    case DType::q5_k:
      return {FLYBALL_Q5_K_VALUES, FLYBALL_Q5_K_FILE_BYTES};
    case DType::q6_k:
      return {FLYBALL_Q6_K_VALUES, FLYBALL_Q6_K_FILE_BYTES};
    default: {
      const Affine a = affine_of(t).value_or(Affine{8, 1});
      return {a.group, a.group * a.bits / 8};
    }
  }
}

// Bytes of one row of `cols` values. Precondition: cols is a multiple of block_shape(t).values.
constexpr std::size_t row_bytes(DType t, std::size_t cols) noexcept {
  const auto b = block_shape(t);
  return cols / b.values * b.bytes;
}

// GGUF's spelling: "F32", "Q4_0", "Q4_K"; ours of the affine types: "AFFINE4_G64".
constexpr std::string_view to_string(DType t) noexcept {
  switch (t) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::q4_0:
      return "Q4_0";
    case DType::q8_0:
      return "Q8_0";
    case DType::q4_k:
      return "Q4_K";
    case DType::q5_k:
      return "Q5_K";
    case DType::q6_k:
      return "Q6_K";
    case DType::affine2_g32:
      return "AFFINE2_G32";
    case DType::affine2_g64:
      return "AFFINE2_G64";
    case DType::affine3_g32:
      return "AFFINE3_G32";
    case DType::affine3_g64:
      return "AFFINE3_G64";
    case DType::affine4_g32:
      return "AFFINE4_G32";
    case DType::affine4_g64:
      return "AFFINE4_G64";
    case DType::affine6_g32:
      return "AFFINE6_G32";
    case DType::affine6_g64:
      return "AFFINE6_G64";
    case DType::affine8_g32:
      return "AFFINE8_G32";
    case DType::affine8_g64:
      return "AFFINE8_G64";
  }
  return "?";
}

constexpr std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace flyball::kernels
