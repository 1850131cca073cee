// The token budget of a step against devices of known speed.
#include "backends/engine/step_budget.hpp"

#include <gtest/gtest.h>

namespace flyball::engine {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A device: so long for a step, and so long for each token in it.
struct Device {
  double step_ms, token_ms;
  nanoseconds time(std::uint32_t n) const {
    return duration_cast<nanoseconds>(std::chrono::duration<double, std::milli>(step_ms + n * token_ms));
  }
};

// Prefill alone: each step is full. Returns the longest step.
nanoseconds prefill(StepBudget& budget, const Device& device, int steps) {
  nanoseconds longest{0};
  for (int i = 0; i < steps; ++i) {
    const nanoseconds took = device.time(budget.tokens());
    longest = std::max(longest, took);
    budget.measured(budget.tokens(), took);
  }
  return longest;
}

TEST(StepBudget, AFastDeviceGetsItAllWithinAFewSteps) {
  StepBudget budget(256);
  EXPECT_EQ(budget.tokens(), 16U);
  prefill(budget, {2, 0.1}, 4);
  EXPECT_EQ(budget.tokens(), 256U);
  prefill(budget, {0, 0}, 3);  // a clock too coarse to see a step
  EXPECT_EQ(budget.tokens(), 256U);
}

TEST(StepBudget, ASlowDeviceIsNeverTriedWithALongStep) {
  StepBudget budget(256);
  EXPECT_LE(prefill(budget, {40, 2}, 50), milliseconds(170));
  EXPECT_GE(budget.tokens(), 45U);
  EXPECT_LE(budget.tokens(), 55U);  // 40 + 55 * 2 = 150
  StepBudget crawling(256);
  EXPECT_LE(prefill(crawling, {0, 16.7}, 50), milliseconds(270));  // 60 tokens/s: the least
  EXPECT_EQ(crawling.tokens(), kLeastStepTokens);
}

TEST(StepBudget, ADeviceThatSlowsDownIsFollowedInTwoSteps) {
  StepBudget budget(256);
  prefill(budget, {2, 0.1}, 10);
  prefill(budget, {0, 5}, 2);
  EXPECT_EQ(budget.tokens(), 30U);
  prefill(budget, {2, 0.1}, 4);
  EXPECT_EQ(budget.tokens(), 256U);
}

TEST(StepBudget, OneOutlierCostsAtMostHalf) {
  StepBudget budget(256);
  prefill(budget, {2, 0.1}, 10);
  budget.measured(256, std::chrono::seconds(30));
  EXPECT_EQ(budget.tokens(), 128U);
  prefill(budget, {2, 0.1}, 1);
  EXPECT_EQ(budget.tokens(), 256U);
}

TEST(StepBudget, QuickDecodesSayNothingAboutPrompts) {
  StepBudget budget(256);
  prefill(budget, {30, 0.2}, 10);
  EXPECT_EQ(budget.tokens(), 256U);
  for (int i = 0; i < 100; ++i) budget.measured(1, milliseconds(30));
  EXPECT_EQ(budget.tokens(), 256U);
}

TEST(StepBudget, StaysWithinItsBounds) {
  for (const std::uint32_t most : {1U, 6U, 16U, 4096U}) {
    StepBudget budget(most);
    for (int i = 0; i < 40; ++i) {
      EXPECT_GE(budget.tokens(), std::min(most, kLeastStepTokens));
      EXPECT_LE(budget.tokens(), most);
      budget.measured(budget.tokens(), milliseconds(i < 20 ? 1 : 100'000));
    }
    EXPECT_EQ(budget.tokens(), std::min(most, kLeastStepTokens));
  }
}

}  // namespace
}  // namespace flyball::engine
