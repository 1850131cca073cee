// Tokens of a prompt from its bytes: the daemon has no tokenizer. Pure; bounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/backend.hpp"
#include "daemon/predict/statistics/robust_fit.hpp"

namespace flyball::predict {

// Bytes that a chat's template is given.
std::uint64_t bytes_of(const ChatPrompt& chat) noexcept;
// The tokens that a prompt is taken for until an engine has counted them, whatever the model.
std::uint64_t estimated_tokens(const Prompt& prompt) noexcept;

// The counts that engines have made of one model's prompts.
class PromptTokens {
 public:
  // Until an engine has counted a prompt: English text has about four bytes a token, and a chat template adds
  // some tokens.
  static constexpr std::uint64_t kBytesPerToken = 4, kTemplateTokens = 4;

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
  RobustFit<2> fit_{{kTemplateTokens, 1.0 / kBytesPerToken}, true};
};

}  // namespace flyball::predict
