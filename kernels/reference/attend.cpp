#include "kernels/reference/attend.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/formats/f16.hpp"

namespace flyball::kernels::reference {

void attend(const AttendArgs& a, double* out) {
  std::vector<double> weights(a.n_positions);
  for (std::uint32_t h = 0; h < a.n_heads; ++h) {
    const std::uint32_t kv_head = h / (a.n_heads / a.n_kv_heads);
    const auto row = [&](std::uint32_t position) {  // [head_dim] of this KV head
      const std::size_t block = a.block_table[position / a.block_size];
      return ((block * a.n_kv_heads + kv_head) * a.block_size + position % a.block_size) * a.head_dim;
    };
    double max = -INFINITY;
    for (std::uint32_t p = 0; p < a.n_positions; ++p) {
      double dot = 0;
      for (std::uint32_t d = 0; d < a.head_dim; ++d) {
        dot += static_cast<double>(a.q[h * a.head_dim + d]) * f16_to_f32(a.k_blocks[row(p) + d]);
      }
      weights[p] = dot * a.scale;
      max = std::max(max, weights[p]);
    }
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - max);
    for (std::uint32_t d = 0; d < a.head_dim; ++d) {
      double value = 0;
      for (std::uint32_t p = 0; p < a.n_positions; ++p)
        value += weights[p] / sum * f16_to_f32(a.v_blocks[row(p) + d]);
      out[h * a.head_dim + d] = value;
    }
  }
}

}  // namespace flyball::kernels::reference
