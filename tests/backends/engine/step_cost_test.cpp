// The cost of a step, learned from devices whose cost is known.
#include "backends/engine/step_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/engine/step_budget.hpp"

namespace flyball::engine {
namespace {

// This machine's CPU on a 135M model, PoCL on a 1.1B one, a GPU, one that attends for nothing, and a GPU that
// reads its KV at 250 GB/s.
const StepCost kDevices[] = {{3e-3, 0.3e-3, 0.8e-6},
                             {60e-3, 12e-3, 8e-6},
                             {0.9e-3, 6e-6, 4e-9},
                             {1e-3, 1e-3, 1e-12},
                             {19e-3, 0.4e-3, 4e-8, 0.5e-6}};

// A prompt of `length`, chunk by chunk as long as the limit says; each step takes `noise` more or less.
struct Prefill {
  StepCost device;
  double noise = 0;
  std::mt19937_64 random{1};

  double seconds(const StepWork& work) {
    const double x = static_cast<double>(random()) / static_cast<double>(std::mt19937_64::max());
    return device.of(work) * (1 + noise * (2 * x - 1));
  }
  // Returns the longest step over what the limit allowed, by the device's true cost.
  double run(StepCostFit& fit, std::uint32_t length, std::uint32_t most = 256) {
    double worst = 0;
    for (std::uint32_t at = 0; at < length;) {
      const StepBudget budget = step_budget(fit.cost(), false);
      const std::uint32_t n =
          std::max(1U, fit.cost().fit(budget.part - fit.cost().step, at, std::min(most, length - at)));
      const StepWork work = StepWork::of(at, n);
      worst = std::max(worst, device.of(work) / step_budget(device, false).part);
      fit.measured(work, seconds(work));
      at += n;
    }
    return worst;
  }
};

// A prompt and its answer, a token at a time.
void serve(StepCostFit& fit, Prefill& device, std::uint32_t prompt, std::uint32_t answer = 50) {
  device.run(fit, prompt);
  for (std::uint32_t i = 0; i < answer; ++i) {
    const StepWork one = StepWork::of(prompt + i, 1);
    fit.measured(one, device.seconds(one));
  }
}

TEST(StepCost, CountsTheTokensAndWhatTheyAttendTo) {
  EXPECT_EQ(StepWork::of(0, 4).pairs, 10U);
  EXPECT_EQ(StepWork::of(100, 2).pairs, 101U + 102);
  EXPECT_EQ(StepWork::of(4'000'000'000U, 256).pairs, 256ULL * 4'000'000'000ULL + 256 * 257 / 2);
  StepWork both = StepWork::of(0, 4);
  both += StepWork::of(100, 2);
  EXPECT_EQ(both.tokens, 6U);
  EXPECT_EQ(both.reads, 4U + 102);
  EXPECT_EQ(both.pairs, 213U);
}

// The fit does not charge a decode's reads to each token of a prompt.
TEST(StepCost, TellsWhatIsReadFromWhatIsComputed) {
  const StepCost& device = kDevices[4];
  StepCostFit fit(cost_guess());
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) {
    StepWork work;
    for (unsigned stream = 0; stream < 1 + random() % 8; ++stream)
      work += StepWork::of(static_cast<std::uint32_t>(random() % 3000), 1);
    if (i % 2 == 0)
      work += StepWork::of(static_cast<std::uint32_t>(random() % 3000),
                           static_cast<std::uint32_t>(16 + random() % 32));
    fit.measured(work, device.of(work));
  }
  EXPECT_NEAR(fit.cost().added(3000, 40) / device.added(3000, 40), 1, 0.1);
  EXPECT_NEAR(fit.cost().added(3000, 1) / device.added(3000, 1), 1, 0.1);
}

// Long decodes mostly read. A device that gets ten times slower does so for reads, not for the step.
TEST(StepCost, ASlowerDevicesReadsAreNotTheStepsOwnTime) {
  StepCost device{2e-3, 1e-4, 4e-8, 64e-8};
  StepCostFit fit(cost_guess());
  StepWork decodes;
  for (int stream = 0; stream < 8; ++stream) decodes += StepWork::of(16'000, 1);
  const StepWork prompt = StepWork::of(0, 64);
  for (int i = 0; i < 200; ++i)
    for (const StepWork& work : {decodes, prompt}) fit.measured(work, device.of(work));
  const double before = fit.cost().step;
  for (int i = 0; i < 2; ++i) fit.measured(decodes, 10 * device.of(decodes));
  EXPECT_NEAR(fit.cost().of(decodes) / device.of(decodes), 10, 2);
  EXPECT_LT(fit.cost().step, 3 * before);
}

TEST(StepCost, FitsTheMostThatFits) {
  const StepCost cost{5, 2, 0.01};
  for (const std::uint32_t first : {0U, 100U, 4000U})
    for (const double seconds : {-1.0, 0.0, 1.0, 2.02, 10.0, 500.0}) {
      const std::uint32_t n = cost.fit(seconds, first, 64);
      EXPECT_TRUE(n == 0 || cost.added(first, n) <= seconds);
      EXPECT_TRUE(n == 64 || cost.added(first, n + 1) > seconds);
    }
  EXPECT_EQ(cost.fit(1e9, 0, 0), 0U);
}

TEST(StepCost, IsLearnedFromOneRequest) {
  for (const StepCost& device : kDevices) {
    SCOPED_TRACE(device.token);
    StepCostFit fit(cost_guess());
    Prefill prefill{device, 0.1};
    serve(fit, prefill, 4096);
    EXPECT_LT(prefill.run(fit, 4096), 1.3) << "no step is much longer than it should be, early or late";
    for (const std::uint32_t at : {0U, 1000U, 4000U}) {
      const StepWork work = StepWork::of(at, 32);
      EXPECT_NEAR(fit.cost().of(work) / device.of(work), 1, 0.2) << at;
    }
  }
}

// How long a step may be is known late in a long prompt, too, because what a step and a token cost was not
// mistaken for what attending costs, nor the other way round.
TEST(StepCost, AShortPromptsCostIsKnownAfterALongOnes) {
  for (const StepCost& device : kDevices) {
    SCOPED_TRACE(device.token);
    StepCostFit fit(cost_guess());
    Prefill prefill{device, 0.1};
    serve(fit, prefill, 300);
    prefill.run(fit, 4096);
    EXPECT_NEAR(step_budget(fit.cost(), false).part / step_budget(device, false).part, 1, 0.25);
  }
}

TEST(StepCost, ManyDecodesDoNotWashOutWhatPromptsCost) {
  for (const StepCost& device : kDevices) {
    SCOPED_TRACE(device.token);
    StepCostFit fit(cost_guess());
    Prefill prefill{device, 0.1};
    prefill.run(fit, 4096);
    for (std::uint32_t i = 0; i < 20'000; ++i) {
      const StepWork one = StepWork::of(100 + i % 2000, 1);
      fit.measured(one, prefill.seconds(one));
    }
    EXPECT_LT(prefill.run(fit, 4096), 1.5);
  }
}

TEST(StepCost, OneOutlierCountsForNothingAndTwoAreBelieved) {
  const StepCost device = kDevices[0];
  StepCostFit fit(cost_guess());
  Prefill prefill{device};
  prefill.run(fit, 2048);
  const StepWork work = StepWork::of(0, 64);
  const double before = fit.cost().of(work);
  fit.measured(work, 30);
  EXPECT_EQ(fit.cost().of(work), before);
  fit.measured(work, device.of(work));
  EXPECT_NEAR(fit.cost().of(work) / before, 1, 0.05);
  fit.measured(work, 50 * device.of(work));
  fit.measured(work, 50 * device.of(work));
  EXPECT_NEAR(fit.cost().of(work) / device.of(work), 50, 2.5) << "slowed down";
  fit.measured(work, device.of(work));
  fit.measured(work, device.of(work));
  EXPECT_NEAR(fit.cost().of(work) / device.of(work), 1, 0.05) << "and recovered";
}

// Prompts got six times slower, decodes hardly: what is expected of a decode hides no prompt's surprise.
TEST(StepCost, WhatKeepsSurprisingBetweenStepsAsExpectedIsLearned) {
  for (const double times : {6.0, 1 / 6.0}) {
    SCOPED_TRACE(times);
    StepCost device{10e-3, 0.1e-3, 1e-12};
    StepCostFit fit(cost_guess());
    Prefill before{device};
    serve(fit, before, 2048);
    device.token *= times;
    device.step *= times < 1 ? 0.6 : 1;  // else a prompt is no surprise
    const StepWork prompt = StepWork::of(0, 64), decode = StepWork::of(64, 1);
    for (int i = 0; i < 40; ++i) {
      fit.measured(prompt, device.of(prompt));
      fit.measured(decode, device.of(decode));
    }
    EXPECT_NEAR(fit.cost().of(prompt) / device.of(prompt), 1, 0.15);
    EXPECT_NEAR(fit.cost().of(decode) / device.of(decode), 1, 0.15);
  }
}

TEST(StepCost, StaysPositiveAndFiniteWhateverIsMeasured) {
  std::mt19937_64 random(7);
  StepCostFit fit(cost_guess());
  for (int i = 0; i < 20'000; ++i) {
    const auto n = static_cast<std::uint32_t>(1 + random() % 4096);
    const auto first = static_cast<std::uint32_t>(random() % 200'000);
    const double exponent = static_cast<double>(random() % 120) / 10 - 9;
    fit.measured(StepWork::of(first, n), random() % 10 == 0 ? 0.0 : std::pow(10, exponent));
    for (const double c : {fit.cost().step, fit.cost().token, fit.cost().pair, fit.cost().read}) {
      ASSERT_TRUE(std::isfinite(c));
      ASSERT_GT(c, 0);
    }
  }
}

}  // namespace
}  // namespace flyball::engine
