// why-not and graph: what stands in the way of a target, and the policy as text and picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "policy/graph.hpp"
#include "policy/scenario.hpp"
#include "policy/why_not.hpp"

namespace flyball::policy {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Tree tools_tree(const std::string& text) {
  auto tree = parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}

const char* const kTools = R"(constraints:
  stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: [remote]}
rules:
  - id: outer
    because: b
    when: {fact: hardware.gpu.count, gte: 1}
    rules:
      - {id: inner, because: b, use: vulkan}
  - {id: moe, because: b, when: {all: [{fact: model.moe, eq: true}, {fact: model.bytes, gt: 1GiB}]}, use: opencl}
  - {id: server, because: b, use: [vllm, cpu, vulkan]}
  - {id: late, because: b, use: [opencl, cpu]}
default: {because: b, use: cpu}
)";

json answer(const char* wanted) {
  static const Tree tree = tools_tree(kTools);
  Facts facts;
  facts.set("app.privacy", std::string("local_only"), "manifest");
  facts.set("hardware.gpu.count", std::int64_t{0}, "probe");
  facts.set("backend.cpu.available", true, "build");
  facts.set("backend.vulkan.available", true, "build");
  return why_not(decide(tree, facts), facts, Target{wanted, "", 0, 0});
}
std::string statuses(const json& answer) {
  std::string out;
  for (const json& place : answer["places"])
    out += place["rule"].get<std::string>() + ":" + place["status"].get<std::string>() + " ";
  return out;
}

TEST(WhyNot, EachPlaceOfATargetHasItsReason) {
  EXPECT_EQ(statuses(answer("vulkan")), "inner:untrue server:passed ");
  EXPECT_EQ(statuses(answer("opencl")), "moe:untrue late:unasked ");
  EXPECT_EQ(statuses(answer("vllm")), "server:denied ");
  EXPECT_EQ(statuses(answer("cpu")), "server:chosen late:unasked default:unasked ");
  EXPECT_EQ(statuses(answer("dynamo")), "");
  const json inner = answer("vulkan")["places"][0];
  EXPECT_EQ(inner["asked"], "outer");
  EXPECT_EQ(inner["comparisons"][0]["value"], 0);
  EXPECT_EQ(inner["comparisons"][0]["source"], "probe");
  EXPECT_EQ(answer("vllm")["places"][0]["reason"], "stay: private");
  const json moe = answer("opencl")["places"][0];
  EXPECT_EQ(moe["comparisons"].size(), 2U);
  EXPECT_TRUE(moe["comparisons"][0]["value"].is_null());
}

TEST(WhyNot, InWords) {
  EXPECT_THAT(
      why_not_text(answer("vllm")),
      HasSubstr(
          "vllm was not chosen; cpu was, by rule server\n  server (line 11), vllm: denied: stay: private"));
  EXPECT_THAT(why_not_text(answer("opencl")), HasSubstr("unknown: model.moe eq true; it is unknown"));
  EXPECT_THAT(why_not_text(answer("vulkan")), HasSubstr("inside rule outer, which is not true"));
  EXPECT_THAT(why_not_text(answer("cpu")), HasSubstr("cpu was chosen"));
  EXPECT_THAT(why_not_text(answer("dynamo")), HasSubstr("no rule of p.yaml names it"));
}

TEST(WhyNot, BeginsWithTheRemoteServerThatIsNotConfigured) {
  for (const std::string kind : {"vllm", "sglang", "tensorrt_llm", "dynamo"}) {
    const std::string sentence =
        kind +
        " is a remote server, and none is configured: this release cannot configure one, so no rule can " +
        "choose " + kind;
    EXPECT_EQ(answer(kind.c_str())["unusable"], sentence);
    EXPECT_THAT(why_not_text(answer(kind.c_str())),
                StartsWith(sentence + "\n" + kind + " was not chosen; cpu was"));
  }
}

TEST(WhyNot, BeginsWithTheReasonOfAnUnavailableEngine) {
  const Tree tree = tools_tree(kTools);
  const auto ask = [&](const Facts& facts, const char* wanted, const char* profile = "") {
    return why_not(decide(tree, facts), facts, Target{wanted, profile, 0, 0});
  };
  Facts laptop;
  ASSERT_TRUE(read_scenario("laptop", laptop));
  ASSERT_TRUE(complete_scenario(laptop));
  const std::string sentence =
      "opencl is not available, so no rule can choose it: no discrete GPU is described";
  EXPECT_EQ(ask(laptop, "opencl")["unusable"], sentence);
  EXPECT_THAT(why_not_text(ask(laptop, "opencl", "latency")),
              StartsWith(sentence + "\nopencl:latency was not"));
  EXPECT_TRUE(ask(laptop, "cpu")["unusable"].is_null());
  EXPECT_THAT(why_not_text(ask(laptop, "cpu")), StartsWith("cpu was chosen"));

  Facts given;
  given.set("backend.vulkan.available", false, "command line");
  given.set("backend.vllm.available", true, "command line");
  EXPECT_EQ(
      ask(given, "vulkan")["unusable"],
      "vulkan is not available, so no rule can choose it: backend.vulkan.available is false (command line)");
  EXPECT_TRUE(ask(given, "vllm")["unusable"].is_null()) << "facts may suppose a server";
  EXPECT_TRUE(ask(given, "opencl")["unusable"].is_null()) << "it is not known whether it is available";
}

// Whatever is asked of the shipped policy: one place is chosen exactly where the target was.
TEST(WhyNot, AgreesWithTheDecision) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  for (const char* words :
       {"mac", "laptop, 50 users", "RTX 4090, private, 16 users", "4 machines, 8 H100", "radeon, mixtral"}) {
    Facts facts(tree->targets);
    ASSERT_TRUE(read_scenario(words, facts));
    complete_scenario(facts);
    const Decision d = decide(*tree, facts);
    for (const std::string_view backend : tree->targets->names()) {
      const json places = why_not(d, facts, Target{std::string(backend), "", 0, 0})["places"];
      std::size_t chosen = 0;
      for (const json& place : places) chosen += place["status"] == "chosen";
      EXPECT_EQ(chosen, d.target->backend == backend ? 1U : 0U) << words << " " << backend;
    }
  }
}

TEST(Graph, ConditionsAsText) {
  const Tree tree = tools_tree(
      "rules: [{id: r, because: b, when: {any: [{all: [{fact: model.bytes, gte: 1KiB}, {fact: model.moe, eq: "
      "true}]}, "
      "{not: {fact: workload.class, in: [chat, agent]}}, {fact: model.id, exists: false}, {fact: "
      "hardware.cpu.bandwidth, lt: 2.5}]}, use: cpu}]\ndefault: {because: b, use: cpu}\n");
  EXPECT_EQ(to_text(tree.rules[0].when, *tree.targets),
            "(model.bytes >= 1024 and model.moe = true) or not workload.class in [chat, agent] or model.id "
            "is unknown "
            "or hardware.cpu.bandwidth < 2.5");
  EXPECT_EQ(to_text(Condition{}, *default_targets()), "always");
}

std::size_t occurrences(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Graph, EveryRuleAndTargetIsDrawn) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const RuleCounts counts{{"one_gpu_one_user", 1234567}};
  const std::string dot = to_dot(*tree, counts), svg = to_svg(*tree, counts);
  std::size_t n = 0;
  const auto check = [&](const auto& self, const Rule& rule) -> void {
    ++n;
    EXPECT_THAT(dot, HasSubstr("\"rule " + rule.id + "\" [label="));
    EXPECT_THAT(svg, HasSubstr(">" + rule.id + "</text>"));
    for (const Target& target : rule.use) {
      EXPECT_THAT(dot, HasSubstr("\"rule " + rule.id + "\" -> \"target " + to_string(target) + "\""));
      EXPECT_THAT(svg, HasSubstr(to_string(target)));
    }
    for (const Rule& child : rule.rules) self(self, child);
  };
  for (const Rule& rule : tree->rules) check(check, rule);
  check(check, tree->fallback);
  EXPECT_EQ(occurrences(svg, "<g>"), n + tree->profiles.size());
  EXPECT_EQ(occurrences(svg, "</g>"), n + tree->profiles.size());
  EXPECT_EQ(occurrences(svg, ">1234567</text>"), 1U);
  EXPECT_EQ(occurrences(dot, "decided 1234567"), 1U);
  EXPECT_EQ(occurrences(dot, "{"), occurrences(dot, "}"));
}

// Text of a policy stays text in a picture.
TEST(Graph, TextIsEscaped) {
  const Tree tree = tools_tree(
      "rules: [{id: r, because: 'a \"b\" <c> & \\d', source: '</title>', when: {fact: model.id, eq: "
      "'\"<x>&'}, use: cpu}]\n"
      "default: {because: b, use: cpu}\n");
  const std::string svg = to_svg(tree, {}), dot = to_dot(tree, {});
  EXPECT_THAT(svg, HasSubstr("a &quot;b&quot; &lt;c&gt; &amp; \\d (&lt;/title&gt;)"));
  EXPECT_THAT(svg, HasSubstr("model.id = &quot;&lt;x&gt;&amp;"));
  EXPECT_THAT(dot, HasSubstr("tooltip=\"a \\\"b\\\" <c> & \\\\d\""));
}

TEST(Graph, CountsOfAMetricsPage) {
  const RuleCounts counts = counts_in_metrics(
      "# HELP flyball_policy_decisions_total Decisions\n"
      "flyball_policy_decisions_total{rule=\"a\",target=\"cpu\"} 3\n"
      "flyball_policy_decisions_total{rule=\"a\",target=\"vulkan\"} 4\n"
      "flyball_policy_decisions_total{rule=\"b\",target=\"cpu\"} 1e3\n"
      "flyball_policy_decisions_total{rule=\"c\"} -1\n"
      "flyball_policy_decisions_total{rule=\"d\n"
      "flyball_policy_decisions_total{}\n"
      "other{rule=\"e\"} 5");
  EXPECT_EQ(counts, (RuleCounts{{"a", 7}, {"b", 1000}}));
  EXPECT_TRUE(counts_in_metrics("").empty());
}

}  // namespace
}  // namespace flyball::policy
