#include "kernels/reference/add.hpp"

namespace flyball::kernels::reference {

void add(double* x, const float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += y[i];
}

void add_scaled(double* x, const float* y, float scale, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += static_cast<double>(scale) * y[i];
}

}  // namespace flyball::kernels::reference
