// Rows of a matrix where their file has them: one run of bytes, or three where the type is affine.
#pragma once

#include <cstddef>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

struct SourceRows {
  const std::byte* data = nullptr;  // row_bytes(type, cols) a row, at any alignment
  // Affine types alone: one a group, row after row, at any alignment.
  const std::byte* scales = nullptr;
  const std::byte* biases = nullptr;
  DType scale_type = DType::f32;  // f32, f16 or bf16; of both

  SourceRows() = default;
  SourceRows(const void* rows) noexcept : data(static_cast<const std::byte*>(rows)) {}
  SourceRows(const void* codes, const void* group_scales, const void* group_biases, DType type) noexcept
      : data(static_cast<const std::byte*>(codes)),
        scales(static_cast<const std::byte*>(group_scales)),
        biases(static_cast<const std::byte*>(group_biases)),
        scale_type(type) {}

  // Bytes of the scales, and of the biases, of so many rows.
  std::size_t scale_bytes(DType type, std::size_t rows, std::size_t cols) const noexcept {
    const auto affine = affine_of(type);
    return affine ? rows * (cols / affine->group) * block_shape(scale_type).bytes : 0;
  }
  // What follows after so many rows.
  SourceRows after(DType type, std::size_t rows, std::size_t cols) const noexcept {
    SourceRows out = *this;
    out.data += rows * row_bytes(type, cols);
    if (scales != nullptr) {
      out.scales += scale_bytes(type, rows, cols);
      out.biases += scale_bytes(type, rows, cols);
    }
    return out;
  }
};

}  // namespace flyball::kernels
