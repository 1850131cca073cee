#include "kernels/reference/moe_route.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace flyball::kernels::reference {

void moe_route(const float* logits, std::uint32_t n_experts, std::uint32_t n_used, std::uint32_t* experts,
               double* weights) {
  const double max = *std::max_element(logits, logits + n_experts);
  double all = 0;
  for (std::uint32_t e = 0; e < n_experts; ++e) all += std::exp(logits[e] - max);
  std::vector<std::uint32_t> order(n_experts);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  double chosen = 0;
  for (std::uint32_t i = 0; i < n_used; ++i) {
    experts[i] = order[i];
    weights[i] = std::exp(logits[order[i]] - max) / all;
    chosen += weights[i];
  }
  for (std::uint32_t i = 0; i < n_used; ++i) weights[i] /= chosen;
}

}  // namespace flyball::kernels::reference
