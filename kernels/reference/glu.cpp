#include "kernels/reference/glu.hpp"

#include <cmath>
#include <numbers>

namespace flyball::kernels::reference {

void glu(Activation activation, const float* gate, const float* up, std::size_t n, double* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const double x = gate[i];
    const double u = std::sqrt(2.0 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
    out[i] = x / (1.0 + std::exp(activation == Activation::gelu ? -2.0 * u : -x)) * up[i];
  }
}

}  // namespace flyball::kernels::reference
