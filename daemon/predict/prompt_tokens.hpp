// Tokens of a prompt from its bytes, by model: the daemon has no tokenizer. Pure; bounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "daemon/predict/statistics/robust_fit.hpp"

namespace flyball::predict {

class PromptTokens {
 public:
  // Until an engine has counted a prompt: English text has about four bytes a token, and a chat template adds
  // some tokens.
  static constexpr double kBytesPerToken = 4, kTemplateTokens = 4;

  void counted(std::uint64_t bytes, std::uint32_t tokens) {
    fit_.add({1, static_cast<double>(bytes)}, static_cast<double>(tokens));
  }
  std::uint32_t expected(std::uint64_t bytes) const {
    constexpr double kMost = 1U << 30;
    return static_cast<std::uint32_t>(
        std::clamp(std::round(fit_({1, static_cast<double>(bytes)})), 1.0, kMost));
  }
  // Of a prompt's text, beside what its template adds.
  double bytes_per_token() const noexcept { return 1 / std::max(fit_.coefficients()[1], 1.0 / 64); }

 private:
  RobustFit<2> fit_{{kTemplateTokens, 1 / kBytesPerToken}, true};
};

}  // namespace flyball::predict
