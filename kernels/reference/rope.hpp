// Rotary position embedding [arXiv:2104.09864] in double precision.
#pragma once

#include <cstdint>

#include "kernels/formats/rope_style.hpp"

namespace flyball::kernels::reference {

// In place on x: [n_heads, head_dim] of one token; values from rope_dim on stay. cos_sin: [rope_dim/2, 2]
void rope(double* x, std::uint32_t n_heads, std::uint32_t head_dim, std::uint32_t rope_dim,
          const float* cos_sin, RopeStyle style);

}  // namespace flyball::kernels::reference
