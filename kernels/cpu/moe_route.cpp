// The choice of a token's experts. Insertion into a short sorted list: most experts are dropped after one
// comparison.
#include <cmath>

#include "kernels/cpu/isa.hpp"

namespace flyball::kernels::cpu {

void moe_route(const float* logits, std::uint32_t n_experts, std::uint32_t n_used, std::uint32_t* experts,
               float* weights) noexcept {
  std::uint32_t n = 0;
  for (std::uint32_t e = 0; e < n_experts; ++e) {
    if (n == n_used && !(logits[e] > logits[experts[n - 1]])) continue;
    std::uint32_t at = n < n_used ? n++ : n - 1;
    for (; at > 0 && logits[e] > logits[experts[at - 1]]; --at) experts[at] = experts[at - 1];
    experts[at] = e;
  }
  float sum = 0.0F;
  for (std::uint32_t i = 0; i < n; ++i) sum += weights[i] = std::exp(logits[experts[i]] - logits[experts[0]]);
  for (std::uint32_t i = 0; i < n; ++i) weights[i] /= sum;
}

}  // namespace flyball::kernels::cpu
