// Root mean square normalisation [arXiv:1910.07467] in double precision.
#pragma once

#include <cstdint>

namespace flyball::kernels::reference {

// out[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight. x, out: [n, dim]; weight: [dim]
void rms_norm(const float* x, const float* weight, std::uint32_t n, std::uint32_t dim, float eps,
              double* out);

}  // namespace flyball::kernels::reference
