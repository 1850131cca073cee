#include "kernels/reference/rope.hpp"

#include <cstddef>

namespace flyball::kernels::reference {

void rope(double* x, std::uint32_t n_heads, std::uint32_t head_dim, std::uint32_t rope_dim,
          const float* cos_sin, RopeStyle style) {
  for (std::uint32_t h = 0; h < n_heads; ++h) {
    double* head = x + std::size_t{h} * head_dim;
    for (std::uint32_t i = 0; i < rope_dim / 2; ++i) {
      double& a = style == RopeStyle::interleaved ? head[2 * i] : head[i];
      double& b = style == RopeStyle::interleaved ? head[2 * i + 1] : head[i + rope_dim / 2];
      const double rotated_a = a * cos_sin[2 * i] - b * cos_sin[2 * i + 1];
      const double rotated_b = a * cos_sin[2 * i + 1] + b * cos_sin[2 * i];
      a = rotated_a;
      b = rotated_b;
    }
  }
}

}  // namespace flyball::kernels::reference
