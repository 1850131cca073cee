// Which engine measured facts call the fastest, and how a receipt shows what that follows from.
#include "policy/fastest.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "policy/decide.hpp"

namespace flyball::policy {
namespace {

using std::chrono::hours;

Facts machine() {
  Facts facts;
  for (const char* backend : {"cpu", "vulkan"})
    facts.set(std::string("backend.") + backend + ".available", true, "probe");
  facts.set("backend.opencl.available", false, "probe");
  return facts;
}
void measure(Facts& facts, const std::string& backend, double decode, double prefill, hours age = hours(1),
             const char* source = kMeasuredSource) {
  facts.set("backend." + backend + ".decode_tps", decode, source, age);
  facts.set("backend." + backend + ".prefill_tps", prefill, source, age);
}
std::string fastest(const Facts& facts) {
  const Fact* fact = facts.get("engines.fastest");
  return fact ? std::get<std::string>(fact->value) : "unknown";
}
std::string outpaced(const Facts& facts, const std::string& backend) {
  const Fact* fact = facts.get("backend." + backend + ".outpaced");
  return !fact ? "unknown" : std::get<bool>(fact->value) ? "yes" : "no";
}

TEST(Fastest, NothingMeasuredNothingKnown) {
  Facts facts = machine();
  derive(facts);
  EXPECT_EQ(fastest(facts), "unknown");
  EXPECT_EQ(outpaced(facts, "cpu"), "unknown");
}

TEST(Fastest, ByWhatTheLoadIsBoundBy) {
  struct Case {
    const char *fact, *value, *fastest;
  };
  for (const Case& c :
       {Case{"workload.class", "chat", "cpu"}, Case{"workload.class", "agent", "cpu"},
        Case{"workload.class", "rag", "vulkan"}, Case{"workload.class", "embedding", "vulkan"},
        Case{"workload.phase", "decode", "cpu"}, Case{"workload.phase", "prefill", "vulkan"}}) {
    Facts facts = machine();
    measure(facts, "cpu", 30, 100);
    measure(facts, "vulkan", 20, 300);
    facts.set(c.fact, std::string(c.value), "manifest");
    derive(facts);
    EXPECT_EQ(fastest(facts), c.fastest) << c.value;
    EXPECT_EQ(outpaced(facts, "cpu"), std::string(c.fastest) == "cpu" ? "no" : "yes") << c.value;
    EXPECT_EQ(outpaced(facts, "vulkan"), std::string(c.fastest) == "cpu" ? "yes" : "no") << c.value;
  }
  // A declared phase says more than the class.
  Facts facts = machine();
  measure(facts, "cpu", 30, 100);
  measure(facts, "vulkan", 20, 300);
  facts.set("workload.class", std::string("rag"), "manifest");
  facts.set("workload.phase", std::string("decode"), "manifest");
  derive(facts);
  EXPECT_EQ(fastest(facts), "cpu");
}

TEST(Fastest, AMeasurementShowsNoLessThanATenth) {
  for (const double tps : {20.0, 21.9}) {
    Facts facts = machine();
    measure(facts, "cpu", tps, 1);
    measure(facts, "vulkan", 20, 1);
    derive(facts);
    EXPECT_EQ(outpaced(facts, "vulkan"), "no") << tps;
  }
  Facts facts = machine();
  measure(facts, "cpu", 22, 1);
  measure(facts, "vulkan", 20, 1);
  derive(facts);
  EXPECT_EQ(outpaced(facts, "vulkan"), "yes");
}

TEST(Fastest, OnlyWhatIsAvailableAndMeasured) {
  Facts facts = machine();
  measure(facts, "opencl", 1000, 1000);  // not available
  measure(facts, "cpu", 10, 10);
  measure(facts, "vulkan", 1000, 1000, hours(1), "predicted: roofline 1000 GB/s / 1 GB");
  facts.set("backend.vllm.available", true, "config");
  measure(facts, "vllm", 5000, 5000);  // no engine of this machine
  derive(facts);
  EXPECT_EQ(fastest(facts), "cpu");
  EXPECT_EQ(outpaced(facts, "cpu"), "no");
  EXPECT_EQ(outpaced(facts, "vulkan"), "unknown");
  EXPECT_EQ(outpaced(facts, "opencl"), "unknown");
}

TEST(Fastest, WhatIsSetStays) {
  Facts facts = machine();
  measure(facts, "cpu", 10, 10);
  measure(facts, "vulkan", 20, 20);
  facts.set("engines.fastest", std::string("opencl"), "facts file");
  facts.set("backend.cpu.outpaced", false, "facts file");
  derive(facts);
  EXPECT_EQ(fastest(facts), "opencl");
  EXPECT_EQ(outpaced(facts, "cpu"), "no");
}

constexpr const char* kPolicy = R"(schema: flyball.policy/v1
rules:
  - id: measured
    because: slower here
    when: {fact: backend.vulkan.outpaced, eq: true}
    use: [cpu, vulkan]
default: {because: the class, use: [vulkan, cpu]}
)";

TEST(Fastest, TheReceiptShowsWhatItFollowsFrom) {
  const auto tree = parse_policy(kPolicy, "p.yaml");
  ASSERT_TRUE(tree);
  Facts facts = machine();
  measure(facts, "cpu", 41.5, 400, hours(30));
  measure(facts, "vulkan", 8.25, 90, hours(2));
  derive(facts);
  const Decision decision = decide(*tree, facts);
  ASSERT_NE(decision.target, nullptr);
  EXPECT_EQ(decision.target->backend, "cpu");
  const nlohmann::json said = receipt(decision, facts);
  std::vector<std::string> names;
  for (const auto& row : said["facts"]) names.push_back(row["name"]);
  const std::vector<std::string> expected = {"backend.vulkan.outpaced", "backend.vulkan.decode_tps",
                                             "backend.cpu.decode_tps"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(said["facts"][0]["value"], true);
  EXPECT_EQ(said["facts"][0]["source"], "derived");
  EXPECT_EQ(said["facts"][0]["age_ms"], 30LL * 3600 * 1000);  // of the older one
  EXPECT_EQ(said["facts"][1]["value"], 8.25);
  EXPECT_EQ(said["facts"][2]["value"], 41.5);
  EXPECT_EQ(said["facts"][2]["source"], "measured");
  const std::string text = explain_text(said);
  EXPECT_NE(text.find("backend.cpu.decode_tps           41.5 tokens/s        measured, 30 h ago"),
            std::string::npos)
      << text;

  Facts class_alone = machine();
  derive(class_alone);
  EXPECT_EQ(decide(*tree, class_alone).target->backend, "vulkan");
}

}  // namespace
}  // namespace flyball::policy
