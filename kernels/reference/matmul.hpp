// matmul in double precision: y[t, r] = sum_c x[t, c] * w[r, c].
#pragma once

#include <cstdint>

#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels::reference {

// w: [rows, cols] in the file's format. x: [n_tokens, cols]. y: [n_tokens, rows]
void matmul(DType type, const SourceRows& w, std::uint32_t rows, std::uint32_t cols, const float* x,
            std::uint32_t n_tokens, double* y);

}  // namespace flyball::kernels::reference
