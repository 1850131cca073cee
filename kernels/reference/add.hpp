// Elementwise sums in double precision.
#pragma once

#include <cstddef>

namespace flyball::kernels::reference {

// x += y, n values.
void add(double* x, const float* y, std::size_t n);
// x += scale * y, n values.
void add_scaled(double* x, const float* y, float scale, std::size_t n);

}  // namespace flyball::kernels::reference
