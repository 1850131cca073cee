#include "kernels/reference/attend.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/formats/f16.hpp"
#include "kernels/formats/kv_page.hpp"

namespace flyball::kernels::reference {
namespace {

double f16_at(const std::uint8_t* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_f32(bits);
}

// Value d of a position's row in a page.
double value_at(const AttendArgs& a, const std::uint8_t* page, std::uint32_t position, std::uint32_t d) {
  const std::size_t at = std::size_t{position} * a.head_dim + d;
  if (a.kv_type == DType::f16) return f16_at(page + 2 * at);
  const double scale =
      f16_at(page + kv_scales_at(a.block_size, a.head_dim, position) + 2 * std::size_t{d / kKvScaleValues});
  return scale * static_cast<std::int8_t>(page[at]);
}

}  // namespace

void attend(const AttendArgs& a, double* out) {
  std::vector<double> weights(a.n_positions);  // of those not seen 0
  const std::size_t page_bytes = kv_page_bytes(a.kv_type, a.block_size, a.head_dim);
  for (std::uint32_t h = 0; h < a.n_heads; ++h) {
    const std::uint32_t kv_head = h / (a.n_heads / a.n_kv_heads);
    const auto value = [&](const void* blocks, std::uint32_t position, std::uint32_t d) {
      const std::size_t block = a.block_table[position / a.block_size];
      const auto* page =
          static_cast<const std::uint8_t*>(blocks) + (block * a.n_kv_heads + kv_head) * page_bytes;
      return value_at(a, page, position % a.block_size, d);
    };
    double max = -INFINITY;
    for (std::uint32_t p = a.first_position; p < a.n_positions; ++p) {
      double dot = 0;
      for (std::uint32_t d = 0; d < a.head_dim; ++d) {
        dot += static_cast<double>(a.q[h * a.head_dim + d]) * value(a.k_blocks, p, d);
      }
      weights[p] = dot * a.scale;
      if (a.cap != 0.0F) weights[p] = a.cap * std::tanh(weights[p] / a.cap);
      max = std::max(max, weights[p]);
    }
    double sum = 0;
    for (std::uint32_t p = a.first_position; p < a.n_positions; ++p)
      sum += weights[p] = std::exp(weights[p] - max);
    for (std::uint32_t d = 0; d < a.head_dim; ++d) {
      double mixed = 0;
      for (std::uint32_t p = a.first_position; p < a.n_positions; ++p)
        mixed += weights[p] / sum * value(a.v_blocks, p, d);
      out[h * a.head_dim + d] = mixed;
    }
  }
}

}  // namespace flyball::kernels::reference
