// The layout that decide() walks: what shares a number, and that it stays true to its tree.
#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "policy/decide.hpp"
#include "tests/policy/large_policy.hpp"

namespace flyball::policy {
namespace {

Tree program_tree(const std::string& text) {
  auto tree = parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}

TEST(Program, TheSameComparisonIsOneQuestionAndKeepsItsPlaces) {
  const Tree tree = program_tree(
      "rules:\n"
      "  - {id: a, because: b, when: {all: [{fact: model.moe, eq: true}, {fact: model.bytes, gt: 5}]}, use: "
      "cpu}\n"
      "  - {id: c, because: b, when: {not: {fact: model.moe, eq: true}}, use: vulkan}\n"
      "  - {id: d, because: b, when: {any: [{fact: model.moe, eq: false}, {fact: model.bytes, gte: 5}]}, "
      "use: cpu}\n"
      "  - {id: e, because: b, when: {fact: model.moe, exists: true}, use: cpu}\n"
      "default: {because: b, use: cpu}\n");
  EXPECT_EQ(tree.size.comparisons, 6U);
  EXPECT_EQ(tree.program.questions.size(), 5U);
  Facts facts;
  facts.set("model.moe", true, "test");
  const nlohmann::json r = receipt(decide(tree, facts), facts);
  EXPECT_EQ(r["rules"][0]["conditions"][0]["line"], 3);
  EXPECT_EQ(r["rules"][1]["conditions"][0]["line"], 4);
  EXPECT_EQ(r["rules"][0]["conditions"][0]["outcome"], "yes");
  EXPECT_EQ(r["rules"][1]["conditions"][0]["outcome"], "yes");
  EXPECT_EQ(r["rules"][1]["outcome"], "no");
}

TEST(Program, TargetsShareANumberByEngineAndProfile) {
  const Tree tree = program_tree(
      "constraints: {c: {because: b, when: {fact: app.privacy, eq: local_only}, deny: [remote, opencl]}}\n"
      "rules:\n"
      "  - {id: a, because: b, use: [\"opencl:latency\", vllm, cpu]}\n"
      "  - {id: c, because: b, when: {fact: model.moe, eq: true}, use: [opencl, vllm, \"opencl:latency\"]}\n"
      "default: {because: b, use: cpu}\n");
  const Program& program = tree.program;
  EXPECT_EQ(program.numbers, (std::vector<std::uint8_t>{0, 1, 2, 3, 1, 0, 2}));
  EXPECT_EQ(program.first_fact[0], program.first_fact[3]) << "the profile does not matter to it";
  ASSERT_EQ(program.bans.size(), 1U);
  EXPECT_EQ(program.bans[0].numbers, 0b1011U);
}

// Answers are kept under numbers and integers compared apart: each is what compare() says of it alone.
TEST(Program, AnswersAreThoseOfCompare) {
  const auto shipped = parse_policy(config::default_policy_yaml(), "policy.yaml");
  const auto large = parse_policy(large_policy(), "large.yaml");
  ASSERT_TRUE(shipped && large);
  std::size_t asked = 0;
  for (const Tree* tree : {&*shipped, &*large})
    for (const std::int64_t concurrency : {1, 1900, 2000}) {
      const Facts facts = in_catalogue(large_policy_facts(concurrency), tree->targets);
      const Decision decision = decide(*tree, facts);
      for (const ConditionTrace& trace : decision.conditions) {
        const Condition& condition = decision.condition(trace);
        EXPECT_EQ(trace.outcome, compare(condition, facts.get(condition.fact))) << "line " << condition.line;
      }
      asked += decision.conditions.size();
    }
  EXPECT_GT(asked, 1000U);
}

static_assert(!std::is_copy_constructible_v<Tree> && !std::is_copy_assignable_v<Tree>,
              "its program would point into another tree");

TEST(Program, MovesWithItsTree) {
  Tree tree = program_tree(large_policy().substr(large_policy().find('\n') + 1));
  const Facts facts = large_policy_facts(2000);
  const std::string before = receipt(decide(tree, facts), facts).dump();
  auto moved = std::make_unique<Tree>(std::move(tree));
  EXPECT_EQ(receipt(decide(*moved, facts), facts).dump(), before);
  tree = std::move(*moved);
  moved.reset();
  EXPECT_EQ(receipt(decide(tree, facts), facts).dump(), before);
}

TEST(ProgramDeathTest, ATreeThatWasChangedSinceIsNotDecidedBy) {
  Tree tree = program_tree("default: {because: b, use: cpu}\n");
  tree.fallback.use.push_back(tree.fallback.use.front());
  EXPECT_DEATH(decide(tree, Facts()), "");
  tree.program = compile(tree);
  EXPECT_EQ(decide(tree, Facts()).targets.size(), 2U);
}

TEST(ProgramDeathTest, BehindTheEndOfAPathIsNothing) {
  const Tree tree = program_tree("default: {because: b, use: cpu}\n");
  const Decision decision = decide(tree, Facts());
  ASSERT_EQ(decision.targets.size(), 1U);
  EXPECT_DEATH((void)decision.targets[1], "");
  EXPECT_DEATH((void)decision.rules[0], "") << "it has room for none";
}

TEST(Program, APathThatIsCopiedIsAsLongAsItIs) {
  const auto tree = parse_policy(large_policy(), "large.yaml");
  ASSERT_TRUE(tree);
  const Facts none_true = large_policy_facts(1), all_true = large_policy_facts(2000);
  Decision decision = decide(*tree, all_true);
  const Decision kept = decision;
  decide(*tree, none_true, decision);
  EXPECT_EQ(kept.rules.size(), 200U);
  EXPECT_EQ(decision.rules.size(), 120U);
  EXPECT_EQ(receipt(kept, all_true), receipt(decide(*tree, all_true), all_true));
  decision = kept;
  EXPECT_EQ(receipt(decision, all_true), receipt(kept, all_true));
}

}  // namespace
}  // namespace flyball::policy
