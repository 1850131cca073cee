// One row of f32 to any element type of GGUF files, scalar. Quantized types minimise the squared error of
// each block over a small set of candidate scales; no importance weights. For tools and tests: never on the
// path of a request.
#pragma once

#include <cstddef>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

// in: [cols], finite. out: row_bytes(type, cols) bytes at any alignment.
// Precondition: type is in kAllDTypes, cols is a multiple of block_shape(type).values.
void quantize_row(DType type, const float* in, std::size_t cols, void* out) noexcept;

}  // namespace flyball::kernels
