// Findings in policies that load: rules nobody reaches, targets nobody gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

std::vector<std::string> warnings(const std::string& rules) {
  const auto tree =
      parse_policy("schema: flyball.policy/v1\n" + rules + "default: {because: b, use: cpu}\n", "p.yaml");
  if (!tree) return {"does not load: " + tree.error().message};
  std::vector<std::string> out;
  for (const LintFinding& f : lint(*tree)) out.push_back(f.where + " " + f.message);
  return out;
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Lint, ShippedPolicyIsClean) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  for (const LintFinding& f : lint(*tree)) ADD_FAILURE() << f.where << " " << f.message;
}

TEST(Lint, AfterARuleThatAlwaysDecides) {
  EXPECT_THAT(warnings("rules:\n  - {id: a, because: b, use: cpu, on_unavailable: fail}\n  - {id: c, "
                       "because: d, use: cpu}\n"),
              ElementsAre(HasSubstr("p.yaml:4:5 rule \"c\" is never reached: rule \"a\"")));
  EXPECT_THAT(warnings("rules:\n  - {id: a, because: b, use: cpu}\n  - {id: c, because: d, use: vulkan}\n"),
              IsEmpty());
  const std::string when = "when: {fact: model.moe, eq: true}";
  EXPECT_THAT(
      warnings("rules:\n  - {id: a, because: b, " + when +
               ", use: cpu, on_unavailable: queue}\n  - {id: c, because: d, " + when + ", use: cpu}\n"),
      ElementsAre(HasSubstr("never reached")));
}

TEST(Lint, ComparisonsThatExcludeEachOther) {
  const auto both = [](const std::string& a, const std::string& b) {
    return warnings("rules:\n  - id: a\n    because: b\n    when: {all: [" + a + ", " + b +
                    "]}\n    use: cpu\n");
  };
  const auto never = ElementsAre(HasSubstr("never true"));
  EXPECT_THAT(both("{fact: model.moe, eq: true}", "{fact: model.moe, eq: false}"), never);
  EXPECT_THAT(both("{fact: model.moe, eq: true}", "{fact: model.moe, ne: true}"), never);
  EXPECT_THAT(both("{fact: model.bytes, gt: 5}", "{fact: model.bytes, lt: 3}"), never);
  EXPECT_THAT(both("{fact: model.bytes, gte: 5}", "{fact: model.bytes, lte: 5}"), IsEmpty());
  EXPECT_THAT(both("{fact: model.bytes, gt: 5}", "{fact: model.bytes, lte: 5}"), never);
  EXPECT_THAT(both("{fact: model.bytes, eq: 5}", "{fact: model.bytes, lt: 5}"), never);
  EXPECT_THAT(both("{fact: model.bytes, lt: 5}", "{fact: model.bytes, lt: 3}"), IsEmpty());
  EXPECT_THAT(both("{fact: model.id, eq: a}", "{fact: model.id, in: [b, c]}"), never);
  EXPECT_THAT(both("{fact: model.id, in: [a, b]}", "{fact: model.id, eq: a}"), IsEmpty());
  EXPECT_THAT(both("{fact: model.id, exists: false}", "{fact: model.id, eq: a}"), never);
  EXPECT_THAT(both("{fact: model.id, exists: true}", "{fact: model.id, eq: a}"), IsEmpty());
  EXPECT_THAT(both("{fact: model.id, exists: true}", "{fact: model.id, exists: false}"), never);
  EXPECT_THAT(both("{fact: model.bytes, gt: 5}", "{fact: model.context, lt: 3}"), IsEmpty());
}

TEST(Lint, ANestedRuleThatItsParentExcludes) {
  EXPECT_THAT(warnings(R"(rules:
  - id: a
    because: b
    when: {fact: hardware.memory.unified, eq: true}
    rules:
      - {id: c, because: d, when: {fact: hardware.memory.unified, eq: false}, use: cpu}
      - {id: e, because: f, use: cpu}
)"),
              ElementsAre(HasSubstr("rule \"c\" is never true")));
}

TEST(Lint, Targets) {
  EXPECT_THAT(warnings("rules:\n  - {id: a, because: b, use: [cpu, vulkan, cpu]}\n"),
              ElementsAre(HasSubstr("names the target cpu twice")));
  const std::string constraint =
      "constraints: {c: {because: d, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n";
  EXPECT_THAT(warnings(constraint + "rules:\n  - {id: a, because: b, when: {fact: app.privacy, eq: "
                                    "local_only}, use: [vllm, sglang]}\n"),
              ElementsAre(HasSubstr("every target of rule \"a\" is denied")));
  EXPECT_THAT(
      warnings(
          constraint +
          "rules:\n  - {id: a, because: b, when: {fact: app.privacy, eq: local_only}, use: [vllm, cpu]}\n"),
      IsEmpty());
}

TEST(Lint, ConstraintThatCannotBeTrue) {
  EXPECT_THAT(warnings("constraints: {c: {because: d, when: {all: [{fact: model.moe, eq: true}, {fact: "
                       "model.moe, eq: false}]}, deny: cpu}}\n"),
              ElementsAre(HasSubstr("constraint \"c\" can never be true")));
}

}  // namespace
}  // namespace flyball::policy
