// decide() into storage that is used again takes nothing from the heap.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "policy/decide.hpp"
#include "tests/harness/allocations.hpp"
#include "tests/policy/large_policy.hpp"

namespace flyball::policy {
namespace {

using testing::allocations_of;

TEST(Allocations, AreCounted) {
  EXPECT_GE(allocations_of([] { std::vector<int>(100).resize(200); }), 2U);
}

TEST(Decide, AllocatesNothingOnALargePolicy) {
  const auto tree = parse_policy(large_policy(), "large.yaml");
  ASSERT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  ASSERT_EQ(tree->size.rules, static_cast<std::uint32_t>(kLargePolicyRules));
  const Facts none_true = large_policy_facts(1), all_true = large_policy_facts(2000);
  Decision decision;
  // The shortest path first: what it needs is not what the longest needs.
  EXPECT_GT(allocations_of([&] { decide(*tree, none_true, decision); }), 0U);
  EXPECT_EQ(decision.conditions.size(), 2U + 3U * 120U);  // none inside a rule that is not true
  EXPECT_EQ(allocations_of([&] { decide(*tree, all_true, decision); }), 0U);
  EXPECT_EQ(decision.rules.size(), static_cast<std::size_t>(kLargePolicyRules));
  EXPECT_EQ(decision.targets.size(), 3U * 160U + 1U);
  EXPECT_EQ(decision.rule, &tree->fallback);
  EXPECT_EQ(receipt(decision, all_true), receipt(decide(*tree, all_true), all_true))
      << "nothing of the decision before is left";
}

TEST(Decide, AllocatesNothingToPickByPredictions) {
  const auto tree = parse_policy(predicted_policy(), "predicted.yaml");
  ASSERT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  const Facts facts = predicted_facts();
  Decision decision;
  decide(*tree, facts, decision);
  EXPECT_EQ(allocations_of([&] { decide(*tree, facts, decision); }), 0U);
  ASSERT_EQ(decision.picks.size(), 2U);
  EXPECT_EQ(decision.picks[0].picked.by, Picked::By::nothing);
  EXPECT_EQ(decision.picks[1].picked.by, Picked::By::loaded);
  EXPECT_EQ(to_string(*decision.target), "sglang");
}

TEST(Decide, AllocatesNothingOnTheShippedPolicy) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const Facts nothing(tree->targets), some = in_catalogue(large_policy_facts(8), tree->targets);
  Decision decision;
  decide(*tree, nothing, decision);
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 100; ++i) decide(*tree, i % 2 ? some : nothing, decision);
            }),
            0U);
}

}  // namespace
}  // namespace flyball::policy
