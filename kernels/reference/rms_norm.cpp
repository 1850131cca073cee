#include "kernels/reference/rms_norm.hpp"

#include <cmath>
#include <cstddef>

namespace flyball::kernels::reference {

void rms_norm(const float* x, const float* weight, std::uint32_t n, std::uint32_t dim, float eps,
              double* out) {
  for (std::uint32_t t = 0; t < n; ++t) {
    const float* row = x + std::size_t{t} * dim;
    double square = 0;
    for (std::uint32_t i = 0; i < dim; ++i) square += static_cast<double>(row[i]) * row[i];
    const double rms = std::sqrt(square / dim + eps);
    for (std::uint32_t i = 0; i < dim; ++i) out[std::size_t{t} * dim + i] = row[i] / rms * weight[i];
  }
}

}  // namespace flyball::kernels::reference
