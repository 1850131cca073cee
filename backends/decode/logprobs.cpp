#include "backends/decode/logprobs.hpp"

#include <algorithm>
#include <cmath>

#include "backends/decode/softmax.hpp"

namespace flyball::decode {

Logprobs logprobs(std::span<const float> logits, Token chosen, std::uint32_t n_top) {
  const float max = logits[static_cast<std::size_t>(argmax(logits))];
  const double log_sum = static_cast<double>(max) + std::log(Softmax{max}.sum(logits));

  Logprobs result;
  result.chosen = static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(chosen)]) - log_sum);
  if (n_top == 0) return result;
  // Kept sorted; n_top is at most 20, and few values get past the last one.
  auto& top = result.top;
  top.reserve(n_top + 1);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (top.size() == n_top && logits[i] <= top.back().value) continue;
    const auto at =
        std::find_if(top.begin(), top.end(), [&](const Likely& t) { return logits[i] > t.value; });
    top.insert(at, {static_cast<Token>(i), logits[i]});
    if (top.size() > n_top) top.pop_back();
  }
  for (Likely& t : top) t.value = static_cast<float>(static_cast<double>(t.value) - log_sum);
  return result;
}

Logprobs logprobs(const Candidates& row, Token chosen, std::uint32_t n_top) {
  const double log_sum = static_cast<double>(row.likeliest.front().value) + std::log(double{row.exp_sum});
  Logprobs result;
  for (const Likely& t : row.likeliest) {
    const auto value = static_cast<float>(static_cast<double>(t.value) - log_sum);
    if (result.top.size() < n_top) result.top.push_back({t.token, value});
    if (t.token == chosen) result.chosen = value;
  }
  return result;
}

}  // namespace flyball::decode
