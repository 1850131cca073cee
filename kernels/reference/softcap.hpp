// A soft cap in double precision.
#pragma once

#include <cstddef>

namespace flyball::kernels::reference {

// x = cap * tanh(x / cap), n values.
void softcap(double* x, std::size_t n, float cap);

}  // namespace flyball::kernels::reference
