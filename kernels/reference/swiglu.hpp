// SwiGLU's elementwise part [arXiv:2002.05202] in double precision.
#pragma once

#include <cstddef>

namespace flyball::kernels::reference {

// out = silu(gate) * up, n values; silu(x) = x / (1 + e^-x)
void swiglu(const float* gate, const float* up, std::size_t n, double* out);

}  // namespace flyball::kernels::reference
