#include "kernels/reference/softcap.hpp"

#include <cmath>

namespace flyball::kernels::reference {

void softcap(double* x, std::size_t n, float cap) {
  for (std::size_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

}  // namespace flyball::kernels::reference
