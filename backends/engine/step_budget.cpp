#include "backends/engine/step_budget.hpp"

namespace flyball::engine {

void StepBudget::measured(std::uint32_t n_tokens, std::chrono::nanoseconds elapsed) noexcept {
  const bool slow = elapsed > kStepTarget;
  // Tokens that would have taken kStepTarget at this step's time per token. Small steps cost more per token
  // (each reads all weights): only one that filled the budget says that there is room for more.
  const double fit = static_cast<double>(n_tokens) * static_cast<double>(kStepTarget.count()) /
                     static_cast<double>(std::max<std::int64_t>(elapsed.count(), 1));
  double next = tokens_;
  if (slow) {
    // One slow step may be the system's doing; two in a row are believed.
    next = std::min(next, was_slow_ ? fit : std::max(fit, next / 2));
  } else if (n_tokens >= tokens_) {
    next = std::min(fit, next * 2);
  }
  was_slow_ = slow;
  const double least = std::min(most_, kLeastStepTokens);
  tokens_ = static_cast<std::uint32_t>(std::clamp(next, least, static_cast<double>(most_)));
}

}  // namespace flyball::engine
