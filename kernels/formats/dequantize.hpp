// One row of any element type to f32, scalar: what the bytes of a file mean.
#pragma once

#include <cstddef>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

// row: row_bytes(type, cols) bytes at any alignment. out: [cols]
// Precondition: cols is a multiple of block_shape(type).values.
void dequantize_row(DType type, const void* row, std::size_t cols, float* out) noexcept;

}  // namespace flyball::kernels
