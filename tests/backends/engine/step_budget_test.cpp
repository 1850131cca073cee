// How long a step may take on devices of known speed.
#include "backends/engine/step_budget.hpp"

#include <gtest/gtest.h>

namespace flyball::engine {
namespace {

constexpr double kMs = 1e-3;

std::uint32_t tokens(const StepCost& cost, double seconds, std::uint32_t at) {
  return cost.fit(seconds - cost.step, at, 4096);
}

TEST(StepBudget, PartOfALongPromptTakesLessThanAShortPrompt) {
  const StepCost cost{3 * kMs, 0.3 * kMs, 0.8e-6 * 1};
  const StepBudget budget = step_budget(cost, true);
  const double brief = cost.of(StepWork::of(0, kShortPrompt));
  EXPECT_DOUBLE_EQ(budget.whole, brief);
  const double empty = cost.of({});
  EXPECT_DOUBLE_EQ(budget.part, empty + kPartShare * (brief - empty));
  EXPECT_DOUBLE_EQ(budget.alone, 150 * kMs);
  EXPECT_TRUE(budget.can_stop);
  EXPECT_GT(tokens(cost, budget.part, 0), 4 * tokens(cost, budget.part, 4000))
      << "the same time at any context";
  EXPECT_LE(cost.of(StepWork::of(4000, tokens(cost, budget.part, 4000))), budget.part);
}

// An 8B model on a GPU with 250 GB/s: reading the weights takes 19 ms.
TEST(StepBudget, AStepsOwnTimeLeavesRoomForPrompts) {
  const StepCost cost{19 * kMs, 0.3 * kMs, 0};
  const StepBudget budget = step_budget(cost, false);
  EXPECT_NEAR(tokens(cost, budget.part, 0), kPartShare * kShortPrompt, 1);
  EXPECT_GT(budget.part, cost.of({8, 0}) + cost.added(0, 2 * kLeastStepTokens - 4)) << "beside eight streams";
}

TEST(StepBudget, AFastDeviceFillsItsSteps) {
  const StepBudget budget = step_budget({1 * kMs, 5e-6, 4e-9}, false);
  EXPECT_DOUBLE_EQ(budget.part, 5 * kMs);
  EXPECT_DOUBLE_EQ(budget.whole, 5 * kMs);
}

TEST(StepBudget, ASlowDeviceKeepsStepsShortButNotWasteful) {
  const StepBudget slow = step_budget({40 * kMs, 4 * kMs, 0}, false);
  EXPECT_DOUBLE_EQ(slow.part, 150 * kMs);
  EXPECT_DOUBLE_EQ(slow.whole, 150 * kMs);
  const StepCost crawling{100 * kMs, 50 * kMs, 0};
  const StepBudget budget = step_budget(crawling, false);
  EXPECT_EQ(tokens(crawling, budget.part + 1e-9, 0), kLeastStepTokens);
  EXPECT_LE(budget.part, budget.whole);
}

TEST(StepBudget, BeginsWithAFewTokens) {
  const StepBudget budget = step_budget(cost_guess(), false);
  EXPECT_NEAR(tokens(cost_guess(), budget.part, 0), kLeastStepTokens, 1);
}

}  // namespace
}  // namespace flyball::engine
