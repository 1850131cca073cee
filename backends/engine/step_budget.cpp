#include "backends/engine/step_budget.hpp"

#include <algorithm>

namespace flyball::engine {
namespace {

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

// A step costs like eight tokens, a token's pairs with a thousand positions like one, reading twenty thousand
// positions like one, and a row of logits like one: a fit that begins with little of it finds more where that
// is so.
StepCost cost_guess() noexcept {
  const double token = seconds(kLongestStep) / (8 + kLeastStepTokens);
  return {8 * token, token, token / 1000, token / 20000, token};
}

StepBudget step_budget(const StepCost& cost, bool can_stop) noexcept {
  const double longest = std::max(seconds(kLongestStep), cost.of(StepWork::of(0, kLeastStepTokens)));
  const double empty = cost.of({});
  const double brief = cost.of(StepWork::of(0, kShortPrompt));
  StepBudget budget;
  budget.cost = cost;
  budget.whole = std::clamp(brief, seconds(kUnnoticed), longest);
  budget.guest = std::clamp(kGuestShare * brief, seconds(kUnnoticed), longest);
  budget.part = std::clamp(empty + kPartShare * (brief - empty), seconds(kUnnoticed), longest);
  budget.alone = longest;
  budget.can_stop = can_stop;
  return budget;
}

void AskedBudgets::add(const std::optional<std::chrono::milliseconds>& budget) noexcept {
  ++sequences;
  if (!budget) return;
  if (*budget > kLongestStep) ++longer;
  if (!strictest || *budget < *strictest) strictest = budget;
}

void AskedBudgets::add(const AskedBudgets& more) noexcept {
  sequences += more.sequences;
  longer += more.longer;
  usual_waits = usual_waits || more.usual_waits;
  if (more.strictest && (!strictest || *more.strictest < *strictest)) strictest = more.strictest;
}

void AskedBudgets::add_waiting(const std::optional<std::chrono::milliseconds>& budget) noexcept {
  if (!budget || *budget <= kLongestStep) usual_waits = true;
}

StepBudget step_budget(const StepBudget& usual, const AskedBudgets& asked) noexcept {
  StepBudget budget = usual;
  if (!asked.strictest) return budget;
  const double most = seconds(*asked.strictest);
  const bool lengthens = asked.longer == asked.sequences && !asked.usual_waits;
  if (lengthens) budget.stoppable = most;
  if (lengthens || asked.sequences > 1) budget.most = most;
  return budget;
}

StepBudget token_budget(std::uint32_t n_tokens) noexcept {
  const double n = n_tokens;
  return {.cost = {0, 1, 0}, .whole = n, .part = n, .alone = n, .guest = n};
}

}  // namespace flyball::engine
