// The turns and times that a decision is taken on take nothing from the heap, into storage that is used
// again, however many answers are open.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/daemon/route/crowd.hpp"
#include "tests/harness/allocations.hpp"

namespace flyball::route {
namespace {

using testing::allocations_of;

class PredictingForSixTargets : public ::testing::TestWithParam<Crowd::Size> {};

TEST_P(PredictingForSixTargets, AllocatesNothing) {
  Crowd crowd(GetParam());
  // The first decisions find out how much storage is needed: a source's text grows with the digits in it.
  constexpr int kFirst = 200, kMeasured = 50;
  for (int decision = 0; decision < kFirst + kMeasured; ++decision) {
    const std::size_t taken = allocations_of([&] {
      crowd.forget();
      crowd.forecast();
      crowd.predict();
    });
    EXPECT_EQ(decision < kFirst ? 0U : taken, 0U) << decision;
    crowd.pass();
  }
  const Crowd::Size size = GetParam();
  const std::uint32_t beyond_slots = 6 * (size.open - std::min(size.open, size.slots));
  EXPECT_GE(crowd.waiting(), beyond_slots);
  EXPECT_LE(crowd.waiting(), beyond_slots + 6) << "each engine may keep its last slot for a newcomer";
  for (std::size_t model = 0; model < Crowd::kModels; ++model)
    for (const char* backend : {"cpu", "vulkan", "opencl"}) {
      const std::string fact = std::string("backend.") + backend + ".expected_total_p90";
      EXPECT_NE(crowd.facts(model).get(fact), nullptr) << fact;
      const std::string delay = std::string("backend.") + backend + ".expected_delay_to_others";
      EXPECT_EQ(crowd.facts(model).get(delay) != nullptr, size.asks_delay_to_others) << delay;
    }
}

INSTANTIATE_TEST_SUITE_P(Crowds, PredictingForSixTargets,
                         ::testing::Values(Crowd::Size{.apps = 4, .slots = 256}, Crowd::Size{.apps = 4},
                                           Crowd::Size{.apps = 50},
                                           Crowd::Size{.apps = 4, .asks_delay_to_others = true}),
                         [](const auto& size) {
                           return "Apps" + std::to_string(size.param.apps) + "Slots" +
                                  std::to_string(size.param.slots) +
                                  (size.param.asks_delay_to_others ? "DelayToOthers" : "");
                         });

}  // namespace
}  // namespace flyball::route
