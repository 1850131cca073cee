// A past decided again: who moves where, who loses a target, and what is known of the new place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "policy/simulate.hpp"

namespace flyball::policy {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const Tree& new_policy() {
  static const Tree tree = [] {
    auto parsed = parse_policy(R"(schema: flyball.policy/v1
constraints:
  stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}
rules:
  - {id: chat, because: b, when: {fact: workload.class, eq: chat}, use: "vulkan:latency"}
  - {id: batch, because: b, when: {fact: workload.class, eq: batch}, use: vllm, on_unavailable: fail}
  - {id: rag, because: b, when: {fact: workload.class, eq: rag}, use: opencl, on_unavailable: queue}
  - {id: agents, because: b, when: {fact: workload.class, eq: agent}, use: opencl, on_unavailable: fail}
default: {because: the rest, use: cpu}
)",
                               "new.yaml");
    EXPECT_TRUE(parsed) << parsed.error().message;
    return std::move(*parsed);
  }();
  return tree;
}

Facts of_class(const char* name) {
  Facts facts;
  facts.set("workload.class", std::string(name), "manifest");
  facts.set("app.privacy", std::string("local_only"), "manifest");
  facts.set("backend.cpu.available", true, "build");
  facts.set("backend.vulkan.available", true, "build");
  return facts;
}

struct Past {
  const char *model, *load, *rule, *target;
  const char* served_by = "";
  double ttft_ms = -1;
  const char* app = "a";
};

Simulation simulated(const std::vector<Past>& past) {
  Simulation out(new_policy());
  for (const Past& one : past) {
    const Facts facts = of_class(one.load);
    out.add({one.app, one.model, one.rule, one.target, one.served_by, one.ttft_ms, facts});
  }
  return out;
}

TEST(Simulate, WhoStaysAndWhoMoves) {
  const Simulation s = simulated({{"m", "chat", "old", "vulkan:latency"},  // the same target by another rule
                                  {"m", "chat", "old", "cpu"},
                                  {"m", "chat", "old", "cpu"},
                                  {"m", "chat", "old", "vulkan"},  // another profile is another place
                                  {"m", "other", "default", "cpu"},
                                  {"m", "other", "old", ""}});  // had none, has one now
  EXPECT_EQ(s.totals().requests, 6U);
  EXPECT_EQ(s.totals().moved, 4U);
  EXPECT_EQ(s.totals().lost, 0U);
  EXPECT_NEAR(s.totals().moved_percent(), 66.7, 0.1);
  const json report = s.report();
  ASSERT_EQ(report["moves"].size(), 3U) << report;
  EXPECT_EQ(report["moves"][0]["requests"], 2) << "most first";
  EXPECT_EQ(report["moves"][0]["from"]["target"], "cpu");
  EXPECT_EQ(report["moves"][0]["to"]["target"], "vulkan:latency");
  EXPECT_EQ(report["moves"][0]["to"]["outcome"], "chosen");
  EXPECT_EQ(report["rules"], json::parse(R"([{"from":"old","to":"chat","requests":1}])"));
  EXPECT_TRUE(report["moves"][2]["from"]["target"].is_null());
  EXPECT_EQ(simulated({}).totals().moved_percent(), 0);
}

TEST(Simulate, ALostTargetSaysWhy) {
  const Simulation s =
      simulated({{"m", "batch", "old", "cpu"}, {"m", "rag", "old", "cpu"}, {"m", "agent", "old", "cpu"}});
  EXPECT_EQ(s.totals().lost, 3U);
  std::map<std::string, std::string> outcomes;
  const json report = s.report();
  for (const json& move : report["moves"]) {
    EXPECT_TRUE(move["to"]["target"].is_null());
    outcomes[move["to"]["rule"]] = move["to"]["outcome"];
  }
  EXPECT_EQ(outcomes, (std::map<std::string, std::string>{
                          {"batch", "denied"}, {"rag", "queued"}, {"agents", "unavailable"}}));
}

TEST(Simulate, TtftIsOfTheSameAppAndModelOnThatEngineOrUnknown) {
  std::vector<Past> past = {{"m", "chat", "old", "cpu"},
                            {"other", "chat", "old", "cpu"},
                            {"other", "other", "default", "cpu", "cpu", 7},
                            {"m", "other", "default", "cpu", "", 9999}};  // more than one engine tried
  for (const double ms : {50.0, 10.0, 40.0, 20.0, 30.0})
    past.push_back({"m", "chat", "chat", "vulkan:latency", "vulkan", ms});
  const json moves = simulated(past).report()["moves"];
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_EQ(moves[0]["model"], "m");
  EXPECT_EQ(moves[0]["to"]["ttft_ms"], json::parse(R"({"p50":30.0,"requests":5,"of":"app"})"));
  EXPECT_TRUE(moves[0]["from"]["ttft_ms"].is_null());
  EXPECT_EQ(moves[1]["from"]["ttft_ms"]["p50"], 7.0);
  EXPECT_TRUE(moves[1]["to"]["ttft_ms"].is_null()) << "nothing of that model ran there";
}

TEST(Simulate, EachAppAndClassMovesWithItsOwnTtft) {
  std::vector<Past> past;
  for (int i = 0; i < 9; ++i) {
    past.push_back({"m", "chat", "old", "cpu", "cpu", 200, "quick"});
    past.push_back({"m", "chat", "chat", "vulkan:latency", "vulkan", 90, "quick"});
  }
  for (const double ms : {17'000.0, 18'000.0, 19'000.0})
    past.push_back({"m", "chat", "old", "cpu", "cpu", ms, "slow"});
  past.push_back({"m", "batch", "old", "cpu", "cpu", 5'000, "slow"});
  past.push_back({"m", "chat", "chat", "vulkan:latency", "vulkan", 60, "slow"});
  const Simulation s = simulated(past);
  const json moves = s.report()["moves"];
  ASSERT_EQ(moves.size(), 3U) << moves;
  EXPECT_EQ(s.totals().moved, 13U);
  const auto expect = [&](int row, const char* app, const char* kind, int requests, const char* from,
                          const char* to) {
    const json& move = moves[static_cast<std::size_t>(row)];
    EXPECT_EQ(move["app"], app);
    EXPECT_EQ(move["class"], kind);
    EXPECT_EQ(move["requests"], requests);
    EXPECT_EQ(move["from"]["ttft_ms"], json::parse(from));
    EXPECT_EQ(move["to"]["ttft_ms"], json::parse(to));
  };
  expect(0, "quick", "chat", 9, R"({"p50":200.0,"requests":9,"of":"app"})",
         R"({"p50":90.0,"requests":9,"of":"app"})");
  expect(1, "slow", "chat", 3, R"({"p50":18000.0,"requests":3,"of":"app"})",
         R"({"p50":60.0,"requests":1,"of":"app"})");
  expect(2, "slow", "batch", 1, R"({"p50":5000.0,"requests":1,"of":"app"})", "null");
}

TEST(Simulate, AnAppWithoutItsOwnTtftShowsThatOfAllAppsAndSaysSo) {
  const Simulation s = simulated({{"m", "chat", "old", "cpu", "cpu", 30, "new"},
                                  {"m", "chat", "chat", "vulkan:latency", "vulkan", 40, "old"},
                                  {"m", "other", "default", "vulkan", "vulkan", 50, "new"},  // another class
                                  {"m", "chat", "chat", "vulkan:latency", "vulkan", 60, "old"}});
  const json report = s.report();
  for (const json& move : report["moves"]) {
    if (move["class"] != "chat") continue;
    EXPECT_EQ(move["from"]["ttft_ms"], json::parse(R"({"p50":30.0,"requests":1,"of":"app"})"));
    EXPECT_EQ(move["to"]["ttft_ms"], json::parse(R"({"p50":50.0,"requests":3,"of":"all"})"));
  }
  EXPECT_THAT(simulation_text(report), HasSubstr("30 ms (of 1) -> 50 ms (of 3, all apps)\n"));
}

TEST(Simulate, AnAppLeftOutCountsForTheTtftOfAllAppsAlone) {
  Simulation s(new_policy());
  const Facts facts = of_class("chat");
  s.add_ttft({"left-out", "m", "chat", "vulkan:latency", "vulkan", 40, facts});
  s.add({"a", "m", "old", "cpu", "cpu", 30, facts});
  EXPECT_EQ(s.totals().requests, 1U);
  const json report = s.report();
  ASSERT_EQ(report["moves"].size(), 1U);
  EXPECT_EQ(report["moves"][0]["to"]["ttft_ms"], json::parse(R"({"p50":40.0,"requests":1,"of":"all"})"));
  EXPECT_EQ(report["switches"], json::array());
}

TEST(Simulate, AClassThatWasNotRecordedIsUnknown) {
  Simulation s(new_policy());
  Facts facts;
  facts.set("backend.cpu.available", true, "build");
  s.add({"a", "m", "old", "vulkan", "vulkan", 30, facts});
  const json report = s.report();
  ASSERT_EQ(report["moves"].size(), 1U);
  EXPECT_TRUE(report["moves"][0]["class"].is_null());
  EXPECT_THAT(simulation_text(report), HasSubstr("  a    unknown  m      vulkan, rule old"));
}

TEST(Simulate, SwitchesAreCountedModelByModel) {
  const json report = simulated({{"m", "chat", "old", "cpu"},
                                 {"n", "other", "old", "cpu"},
                                 {"m", "other", "old", "cpu"},
                                 {"m", "rag", "old", "cpu"},  // no engine now: it switches nothing
                                 {"m", "chat", "old", "cpu:latency"}})
                          .report();
  EXPECT_EQ(report["switches"], json::parse(R"([{"model":"m","recorded":0,"simulated":2}])"));
}

TEST(Simulate, AsText) {
  const Simulation s = simulated({{"m", "chat", "old", "cpu", "cpu", 120.4},
                                  {"m", "chat", "chat", "vulkan:latency", "vulkan", 40.6},
                                  {"m", "batch", "old", "cpu"},
                                  {"m", "other", "old", "cpu"}});
  EXPECT_EQ(simulation_text(s.report()),
            "4 recorded requests decided again by new.yaml: 2 (50.0%) would go elsewhere, 1 would lose their "
            "target\n"
            "\n"
            "  requests  app  class  model  from           to                         median TTFT\n"
            "         1  a    batch  m      cpu, rule old  denied, rule batch         -\n"
            "         1  a    chat   m      cpu, rule old  vulkan:latency, rule chat  120 ms (of 1) -> 40.6 ms "
            "(of 1)\n"
            "\n"
            "same target by another rule\n"
            "  1  old -> default\n"
            "\n"
            "switches of engine\n"
            "  m: 2 recorded, 1 simulated\n");
}

}  // namespace
}  // namespace flyball::policy
