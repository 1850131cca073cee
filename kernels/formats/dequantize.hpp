// One row of any element type to f32, scalar: what the bytes of a file mean.
#pragma once

#include <cstddef>

#include "kernels/formats/dtype.hpp"
#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels {

// out: [cols]
// Precondition: cols is a multiple of block_shape(type).values.
void dequantize_row(DType type, const SourceRows& row, std::size_t cols, float* out) noexcept;

}  // namespace flyball::kernels
