// The elementwise part of a gated linear unit [arXiv:2002.05202] in double precision.
#pragma once

#include <cstddef>

#include "kernels/formats/activation.hpp"

namespace flyball::kernels::reference {

// out = activation(gate) * up, n values.
void glu(Activation activation, const float* gate, const float* up, std::size_t n, double* out);

}  // namespace flyball::kernels::reference
