#include "kernels/reference/swiglu.hpp"

#include <cmath>

namespace flyball::kernels::reference {

void swiglu(const float* gate, const float* up, std::size_t n, double* out) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = gate[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))) * up[i];
}

}  // namespace flyball::kernels::reference
