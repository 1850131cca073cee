#include "kernels/reference/top_k.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace flyball::kernels::reference {

double top_k(const float* logits, std::uint32_t n, std::uint32_t k, std::uint32_t* ids) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  std::copy_n(order.begin(), k, ids);
  const double best = logits[order.front()];
  double sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) sum += std::exp(logits[i] - best);
  return sum;
}

}  // namespace flyball::kernels::reference
