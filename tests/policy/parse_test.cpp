// policy.yaml: what the parser makes of it, and every kind of mistake with its message and place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using testing::HasSubstr;

const std::string kHead = "schema: flyball.policy/v1\n";
const std::string kDefault = "default: {because: b, use: cpu}\n";

TEST(ParsePolicy, EveryPartIsRead) {
  const auto tree = parse_policy(R"(schema: flyball.policy/v1
constraints:
  stay:
    because: private
    when: {fact: app.privacy, eq: local_only}
    deny: [remote, opencl]
rules:
  - id: outer
    because: outer reason
    when:
      any:
        - {fact: hardware.memory.total, gte: 16GiB}
        - not: {fact: app.slo.ttft, lt: 500ms}
        - all:
            - {fact: hardware.cpu.bandwidth, gt: 2.5}
            - {fact: workload.class, in: [chat, agent]}
            - {fact: workload.modalities, in: [image]}
            - {fact: model.moe, exists: false}
    rules:
      - id: inner
        because: inner reason
        source: the book
        use: ["vulkan:latency", cpu]
        on_unavailable: queue
  - {id: last, because: c, when: {fact: model.id, ne: x}, use: opencl}
default:
  because: otherwise
  use: [cpu]
)",
                                 "p.yaml");
  ASSERT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  ASSERT_EQ(tree->constraints.size(), 1U);
  EXPECT_TRUE(denies(tree->constraints[0], "vllm"));
  EXPECT_TRUE(denies(tree->constraints[0], "opencl"));
  EXPECT_FALSE(denies(tree->constraints[0], "cpu"));
  ASSERT_EQ(tree->rules.size(), 2U);
  const Rule& outer = tree->rules[0];
  EXPECT_EQ(outer.when.kind, Condition::Kind::any);
  ASSERT_EQ(outer.when.children.size(), 3U);
  EXPECT_EQ(outer.when.children[0].operand, FactValue(std::int64_t{16} << 30));
  EXPECT_EQ(outer.when.children[0].line, 12U);
  EXPECT_EQ(outer.when.children[1].kind, Condition::Kind::negation);
  EXPECT_EQ(outer.when.children[1].children[0].operand, FactValue(std::int64_t{500}));
  EXPECT_EQ(outer.when.children[2].children[0].operand, FactValue(2.5));
  EXPECT_EQ(outer.when.children[2].children[3].op, Op::exists);
  const Rule& inner = outer.rules.at(0);
  EXPECT_EQ(inner.source, "the book");
  EXPECT_EQ(inner.when.kind, Condition::Kind::always);
  ASSERT_EQ(inner.use.size(), 2U);
  EXPECT_EQ(to_string(inner.use[0]), "vulkan:latency");
  EXPECT_EQ(inner.on_unavailable, OnUnavailable::queue);
  EXPECT_EQ(tree->rules[1].use[0].backend, "opencl");
  EXPECT_EQ(tree->fallback.id, "default");
  EXPECT_EQ(tree->fallback.on_unavailable, OnUnavailable::fail);
}

struct Mistake {
  const char* name;
  std::string text;
  const char* message;
  const char* where;
};
void PrintTo(const Mistake& one, std::ostream* out) {
  *out << one.name;
}
class PolicyMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(PolicyMistakes, AreNamedWithTheirPlace) {
  const auto tree = parse_policy(GetParam().text, "p.yaml");
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(tree.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(tree.error().where, GetParam().where);
}

std::string rule(const std::string& when, const std::string& use = "cpu") {
  return kHead + "rules:\n  - id: r\n    because: b\n    when: " + when + "\n    use: " + use + "\n" +
         kDefault;
}

INSTANTIATE_TEST_SUITE_P(
    Table, PolicyMistakes,
    testing::Values(
        Mistake{"no_default", kHead, "missing key \"default\"", "p.yaml:1:1"},
        Mistake{"no_schema", kDefault, "the first key must be `schema: flyball.policy/v1`", "p.yaml:1:1"},
        Mistake{"rules_as_a_map", kHead + "rules: {a: 1}\n" + kDefault, "rules: expected a list",
                "p.yaml:2:8"},
        Mistake{"unknown_key", kHead + "rules:\n  - {id: a, becuase: b, use: cpu}\n" + kDefault,
                "unknown key \"becuase\" in rules[0]; did you mean \"because\"?", "p.yaml:3:13"},
        Mistake{"no_because", kHead + "rules:\n  - {id: a, use: cpu}\n" + kDefault, "missing key \"because\"",
                "p.yaml:3:5"},
        Mistake{"use_and_rules",
                kHead +
                    "rules:\n  - {id: a, because: b, use: cpu, rules: [{id: c, because: d, use: cpu}]}\n" +
                    kDefault,
                "expected exactly one of `use` and `rules`", "p.yaml:3:5"},
        Mistake{"neither_use_nor_rules", kHead + "rules:\n  - {id: a, because: b}\n" + kDefault,
                "exactly one of", "p.yaml:3:5"},
        Mistake{"on_unavailable_beside_rules",
                kHead +
                    "rules:\n  - {id: a, because: b, on_unavailable: fail, rules: [{id: c, because: d, use: "
                    "cpu}]}\n" +
                    kDefault,
                "on_unavailable belongs to a rule with `use`", "p.yaml:3:41"},
        Mistake{"default_cannot_go_on", kHead + "default: {because: b, use: cpu, on_unavailable: next}\n",
                "expected queue or fail, got \"next\"", "p.yaml:2:49"},
        Mistake{"id_default", kHead + "rules:\n  - {id: default, because: b, use: cpu}\n" + kDefault,
                "is taken", "p.yaml:3:10"},
        Mistake{"duplicate_id",
                kHead + "rules:\n  - {id: a, because: b, use: cpu}\n  - {id: a, because: b, use: cpu}\n" +
                    kDefault,
                "rule id \"a\" is already used at p.yaml:3:5", "p.yaml:4:5"},
        Mistake{"unknown_fact", rule("{fact: hardware.memory.unfied, eq: true}"),
                "unknown fact \"hardware.memory.unfied\"; did you mean \"hardware.memory.unified\"?",
                "p.yaml:5:18"},
        Mistake{"unknown_operator", rule("{fact: model.bytes, gtee: 3}"),
                "unknown key \"gtee\" in rules[0].when; did you mean \"gte\"?", "p.yaml:5:31"},
        Mistake{"no_operator", rule("{fact: model.bytes}"), "needs an operator", "p.yaml:5:12"},
        Mistake{"two_operators", rule("{fact: model.bytes, gt: 1, lt: 3}"), "one operator a comparison",
                "p.yaml:5:38"},
        Mistake{"all_beside_fact", rule("{fact: model.bytes, all: [{fact: model.bytes, gt: 1}]}"),
                "one of all, any, not and fact", "p.yaml:5:31"},
        Mistake{"operator_beside_all", rule("{all: [{fact: model.bytes, gt: 1}], eq: 3}"),
                "belongs beside `fact`", "p.yaml:5:47"},
        Mistake{"empty_condition", rule("{}"), "a condition needs one of", "p.yaml:5:11"},
        Mistake{"empty_all", rule("{all: []}"), "expected at least 1 item", "p.yaml:5:17"},
        Mistake{"boolean_against_number", rule("{fact: hardware.memory.unified, eq: 1}"),
                "is a boolean: expected true or false, got \"1\"", "p.yaml:5:47"},
        Mistake{"integer_against_text", rule("{fact: hardware.gpu.count, eq: two}"),
                "is an integer: expected a whole number", "p.yaml:5:42"},
        Mistake{"bytes_against_duration", rule("{fact: model.bytes, gt: 5s}"),
                "a whole number or a size such as 16GiB", "p.yaml:5:35"},
        Mistake{"number_against_text", rule("{fact: hardware.cpu.bandwidth, gt: fast}"),
                "expected a number, got \"fast\"", "p.yaml:5:46"},
        Mistake{"number_not_finite", rule("{fact: hardware.cpu.bandwidth, gt: nan}"), "expected a number",
                "p.yaml:5:46"},
        Mistake{"order_of_text", rule("{fact: model.id, gt: a}"),
                "`gt` cannot be asked of model.id, which is a text", "p.yaml:5:28"},
        Mistake{"order_of_booleans", rule("{fact: model.moe, lt: true}"), "`lt` cannot be asked",
                "p.yaml:5:29"},
        Mistake{"in_for_numbers", rule("{fact: model.bytes, in: [1, 2]}"), "`in` cannot be asked",
                "p.yaml:5:31"},
        Mistake{"eq_of_a_list", rule("{fact: workload.modalities, eq: text}"), "`eq` cannot be asked",
                "p.yaml:5:39"},
        Mistake{"value_that_cannot_be", rule("{fact: workload.class, eq: chatt}"),
                "workload.class is never \"chatt\"; it is one of: chat agent rag batch completion "
                "classification "
                "summarization extraction embedding fine_tuning; did you mean \"chat\"?",
                "p.yaml:5:38"},
        Mistake{"value_in_a_list", rule("{fact: workload.class, in: [chat, bacth]}"),
                "did you mean \"batch\"?", "p.yaml:5:45"},
        Mistake{"exists_needs_a_boolean", rule("{fact: model.id, exists: 1}"), "expected true or false",
                "p.yaml:5:36"},
        Mistake{"unknown_target", rule("{fact: model.moe, eq: true}", "vulcan"),
                "unknown target \"vulcan\"; did you mean \"vulkan\"?", "p.yaml:6:10"},
        Mistake{"unknown_profile", rule("{fact: model.moe, eq: true}", "[\"cpu:latncy\"]"),
                "unknown profile \"latncy\", expected latency or throughput; did you mean \"latency\"?",
                "p.yaml:6:11"},
        Mistake{"ollama", rule("{fact: model.moe, eq: true}", "ollama"),
                "target \"ollama\": there is no such target on purpose", "p.yaml:6:10"},
        Mistake{"no_target", rule("{fact: model.moe, eq: true}", "[]"), "expected at least 1 item",
                "p.yaml:6:10"},
        Mistake{"deny_nobody",
                kHead + "constraints: {c: {because: b, when: {fact: model.moe, eq: true}, deny: [remot]}}\n" +
                    kDefault,
                "did you mean \"remote\"?", "p.yaml:2:73"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ParsePolicy, AllFindingsAtOnce) {
  const auto tree = parse_policy_all(kHead +
                                         "rules:\n"
                                         "  - {id: a, because: b, when: {fact: x.y, eq: 1}, use: cpu}\n"
                                         "  - {id: c, because: d, use: nowhere}\n" +
                                         kDefault,
                                     "p.yaml");
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().size(), 2U);
}

TEST(ParsePolicy, TooManyRules) {
  std::string text = kHead + "rules:\n";
  for (int group = 0; group < 3; ++group) {
    text += "  - id: g" + std::to_string(group) + "\n    because: b\n    rules:\n";
    for (int i = 0; i < 400; ++i)
      text += "      - {id: r" + std::to_string(group * 1000 + i) + ", because: b, use: cpu}\n";
  }
  const auto tree = parse_policy(text + kDefault, "p.yaml");
  ASSERT_FALSE(tree);
  EXPECT_THAT(tree.error().message, HasSubstr("more than 1000 rules"));
}

TEST(ParsePolicy, SchemaIsRecursiveJson) {
  const auto schema = nlohmann::json::parse(policy_schema());
  EXPECT_TRUE(schema["$defs"].contains("condition"));
  EXPECT_EQ(schema["$defs"]["rule"]["properties"]["rules"]["items"]["$ref"], "#/$defs/rule");
  EXPECT_EQ(schema["required"], nlohmann::json::array({"schema", "default"}));
}

TEST(Catalogue, SortedAndFound) {
  const auto facts = default_targets()->facts();
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(facts[i - 1].name, facts[i].name);
    }
    EXPECT_EQ(find_fact(facts[i].name), i);
    EXPECT_FALSE(facts[i].meaning.empty());
  }
  EXPECT_FALSE(find_fact("hardware.cpu"));
  EXPECT_FALSE(find_fact(""));
  EXPECT_TRUE(default_targets()->is_remote("vllm"));
  EXPECT_FALSE(default_targets()->is_remote("cpu"));
  EXPECT_FALSE(default_targets()->is_remote("nobody"));
}

TEST(CatalogueDeathTest, AFactOutsideItIsABrokenInvariant) {
  Facts facts;
  EXPECT_DEATH(facts.set("hardware.colour", std::string("red"), "test"), "not in the catalogue");
  EXPECT_DEATH(facts.set("model.moe", std::string("yes"), "test"), "a value of another type");
}

}  // namespace
}  // namespace flyball::policy
