// One row of f32 to any element type, scalar. GGUF's quantized types minimise the squared error of each block
// over a small set of candidate scales; no importance weights. Affine groups are MLX's own: from the least
// value to the greatest, of which the one farther from zero is exact. For tools and tests: never on the path
// of a request.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

// in: [cols], finite. out: row_bytes(type, cols) bytes at any alignment. scales, biases: f16, one a group, of
// affine types alone.
// Precondition: cols is a multiple of block_shape(type).values.
void quantize_row(DType type, const float* in, std::size_t cols, void* out, std::uint16_t* scales = nullptr,
                  std::uint16_t* biases = nullptr) noexcept;

}  // namespace flyball::kernels
