// The element types a weight or KV tensor may have, and what a block of each is: how many values, how many
// bytes. What the bytes mean stands in kernels/formats/<type>.hpp, scalar, once. Layouts: ggml's GGUF block
// formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/formats/block_layout.h"

namespace flyball::kernels {

enum class DType : std::uint8_t { f32, f16, bf16, q4_0, q8_0, q4_k, q5_k, q6_k };
inline constexpr DType kAllDTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0,
                                       DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k};
static_assert(static_cast<int>(DType::q4_0) == FLYBALL_FORMAT_Q4_0 &&
              static_cast<int>(DType::q6_k) == FLYBALL_FORMAT_Q6_K);

struct BlockShape {
  std::uint32_t values;  // values per block, along a row
  std::uint32_t bytes;   // bytes per block
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
  }
  return {1, 4};
}

// Bytes of one row of `cols` values. Precondition: cols is a multiple of block_shape(t).values.
constexpr std::size_t row_bytes(DType t, std::size_t cols) noexcept {
  const auto b = block_shape(t);
  return cols / b.values * b.bytes;
}

// GGUF's spelling: "F32", "Q4_0", "Q4_K".
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
  }
  return "?";
}

}  // namespace flyball::kernels
