// Predictions and SLOs: when no target can hold one, and how a request is let through.
#include "daemon/route/slo.hpp"

#include <gtest/gtest.h>

#include <string>

#include "policy/fastest.hpp"
#include "tests/daemon/api/fakes.hpp"

namespace flyball::route {
namespace {

struct Slo : ::testing::Test {
  std::shared_ptr<const policy::Tree> tree =
      testing::tree_of("default: {because: b, use: [cpu, 'vulkan:latency', opencl]}\n");
  policy::Facts facts = testing::make_hardware(true);

  Slo() { facts.set("app.slo.ttft", std::int64_t{500}, "manifest"); }
  void predict(const std::string& id, bool meets, std::int64_t ttft_us) {
    facts.set("backend." + id + ".meets_slo", meets, policy::kPredictedSource);
    facts.set("backend." + id + ".expected_ttft", ttft_us, "predicted: queue 1.0 ms");
  }
  std::string refusal() {
    const auto error = slo_refusal(policy::decide(*tree, facts), facts);
    return error ? error->message : "";
  }
};

TEST_F(Slo, IsRefusedWithTheNearestTargetWhereEveryUsableOneMissesIt) {
  predict("cpu", false, 900'000);
  predict("vulkan", false, 840'000);
  EXPECT_EQ(
      refusal(),
      "No usable engine is predicted to hold the SLO: vulkan:latency comes nearest, with 840.0 ms expected "
      "to the first token where app.slo.ttft is 500 ms (predicted: queue 1.0 ms).");
  EXPECT_EQ(slo_refusal(policy::decide(*tree, facts), facts)->code, ErrorCode::slo_unattainable);
}

TEST_F(Slo, NineInTenDecideAndHalfStandBeside) {
  predict("cpu", false, 100'000);
  predict("vulkan", false, 400'000);
  facts.set("backend.cpu.expected_ttft_p90", std::int64_t{900'000}, policy::kPredictedSource);
  facts.set("backend.vulkan.expected_ttft_p90", std::int64_t{840'000}, policy::kPredictedSource);
  EXPECT_EQ(
      refusal(),
      "No usable engine is predicted to hold the SLO: vulkan:latency comes nearest: nine in ten begin within "
      "840.0 ms where app.slo.ttft is 500 ms (half within 400.0 ms: queue 1.0 ms).");
  facts.set("app.slo.tpot", std::int64_t{10}, "manifest");
  facts.set("backend.vulkan.expected_tpot_p90", std::int64_t{50'000}, policy::kPredictedSource);
  facts.set("backend.cpu.expected_tpot_p90", std::int64_t{40'000}, policy::kPredictedSource);
  facts.set("backend.cpu.expected_tpot", std::int64_t{9'000}, policy::kPredictedSource);
  EXPECT_EQ(refusal(),
            "No usable engine is predicted to hold the SLO: cpu comes nearest: nine in ten take at most 40.0 "
            "ms for "
            "each further token where app.slo.tpot is 10 ms (half within 9.0 ms).");
}

TEST_F(Slo, TheDeadlineIsComparedWithTheEndOfTheAnswer) {
  facts.set("app.slo.deadline", std::int64_t{2'000}, "manifest");
  for (const char* id : {"cpu", "vulkan"}) {
    predict(id, false, 100'000);
    facts.set("backend." + std::string(id) + ".expected_total_p90", std::int64_t{2'100'000}, "predicted");
  }
  EXPECT_NE(
      refusal().find("cpu comes nearest: nine in ten end within 2100.0 ms where app.slo.deadline is 2000 ms"),
      std::string::npos)
      << refusal();
}

// A target that misses one figure narrowly is nearer than one that misses another widely.
TEST_F(Slo, TheFigureThatIsMissedMostCounts) {
  predict("cpu", false, 100'000);
  predict("vulkan", false, 600'000);
  facts.set("app.slo.tpot", std::int64_t{10}, "manifest");
  facts.set("backend.cpu.expected_tpot", std::int64_t{20'000}, policy::kPredictedSource);
  EXPECT_NE(refusal().find("vulkan:latency comes nearest, with 600.0 ms expected to the first token"),
            std::string::npos)
      << refusal();
  facts.set("backend.cpu.expected_tpot", std::int64_t{11'000}, policy::kPredictedSource);
  EXPECT_NE(
      refusal().find("cpu comes nearest, with 11.0 ms expected for each further token where app.slo.tpot "
                     "is 10 ms"),
      std::string::npos)
      << refusal();
}

TEST_F(Slo, UnknownPredictionsRefuseNothing) {
  EXPECT_EQ(refusal(), "");
  predict("cpu", false, 900'000);
  EXPECT_EQ(refusal(), "") << "vulkan's is unknown";
  predict("vulkan", true, 90'000);
  EXPECT_EQ(refusal(), "");
}

TEST_F(Slo, TargetsThatCannotBeUsedSaveNothing) {
  predict("cpu", false, 900'000);
  predict("vulkan", false, 840'000);
  predict("opencl", true, 1'000);
  EXPECT_NE(refusal(), "") << "opencl is not available";
  facts.set("backend.cpu.available", false, "probe");
  facts.set("backend.vulkan.available", false, "probe");
  EXPECT_EQ(refusal(), "") << "no target at all has an error of its own";
}

// The second target of a rule stands in for the first one; so do those of rules on its path, where it goes
// on.
struct SloOfRules : Slo {
  SloOfRules() {
    facts.set("backend.opencl.available", true, "probe");
    predict("cpu", false, 900'000);
    predict("vulkan", false, 840'000);
  }
  void decide_by(const std::string& rule) {
    tree = testing::tree_of("rules:\n  - {id: passed, because: b, use: [vulkan, opencl], pick: meets_slo}\n" +
                            rule + "default: {because: b, use: cpu}\n");
  }
};

TEST_F(SloOfRules, AnotherUsableTargetOfTheRuleThatMeetsItIsEnough) {
  decide_by("  - {id: r, because: b, use: [cpu, opencl], on_unavailable: fail}\n");
  EXPECT_EQ(refusal(), "") << "opencl's is unknown";
  predict("opencl", true, 90'000);
  EXPECT_EQ(refusal(), "");
}

TEST_F(SloOfRules, TargetsThatTheRequestCannotBeSentToSaveNothing) {
  decide_by("  - {id: r, because: b, use: cpu, on_unavailable: fail}\n");
  EXPECT_NE(refusal(), "") << "opencl was passed over, and the rule ends the search";
  decide_by("  - {id: r, because: b, use: cpu}\n");
  EXPECT_EQ(refusal(), "") << "where cpu fails the request goes to opencl, of which nothing is known";
}

TEST_F(SloOfRules, NothingIsRefusedThatWaitsForATarget) {
  facts.set("backend.opencl.available", false, "probe");
  decide_by("  - {id: r, because: b, use: opencl, on_unavailable: queue}\n");
  EXPECT_EQ(refusal(), "");
}

TEST_F(SloOfRules, EveryRuleMayPassItsTargets) {
  facts.set("backend.opencl.available", false, "probe");
  facts.set("backend.cpu.available", false, "probe");
  decide_by("");
  EXPECT_NE(refusal().find("vulkan comes nearest"), std::string::npos) << refusal();
}

// A probe goes to the target whose figures it puts to the test.
TEST_F(SloOfRules, ALetThroughRequestGoesToTheNearestTargetAndItsFactsSayWhy) {
  predict("opencl", false, 950'000);
  decide_by("  - {id: r, because: b, use: cpu, on_unavailable: fail}\n");
  EXPECT_EQ(policy::decide(*tree, facts).target->backend, "cpu");
  EXPECT_EQ(let_through_text(facts), "");
  set_let_through({"vulkan", "as a probe, although it is slow"}, facts);
  EXPECT_EQ(policy::decide(*tree, facts).target->backend, "vulkan");
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(let_through_text(facts), "as a probe, although it is slow");
}

// A rule that picks its first target takes it, whichever comes nearest.
TEST_F(SloOfRules, ARequestMayBeLetThroughAtAnotherTargetThanTheNearest) {
  tree = testing::tree_of("default: {because: b, use: [cpu, vulkan]}\n");
  const auto miss = slo_miss(policy::decide(*tree, facts), facts);
  ASSERT_TRUE(miss);
  EXPECT_EQ(miss->nearest->backend, "vulkan");
  EXPECT_EQ(target_if_let_through(*tree, "vulkan", facts)->backend, "cpu");
  EXPECT_NE(refusal(), "") << "the facts are as before";
  tree = testing::tree_of("default: {because: b, use: [cpu, vulkan], pick: meets_slo, on_slo_miss: first}\n");
  EXPECT_EQ(target_if_let_through(*tree, "vulkan", facts)->backend, "vulkan");
}

TEST_F(SloOfRules, TheRatioIsOfTheTimeThatDecides) {
  EXPECT_DOUBLE_EQ(slo_ratio(policy::Target{"cpu", ""}, facts), 1.8);
  facts.set("backend.cpu.expected_ttft_p90", std::int64_t{1'000'000}, policy::kPredictedSource);
  EXPECT_DOUBLE_EQ(slo_ratio(policy::Target{"cpu", ""}, facts), 2);
  EXPECT_DOUBLE_EQ(slo_ratio(policy::Target{"opencl", ""}, facts), 1) << "nothing is predicted";
}

TEST_F(Slo, WithoutFiguresTheTargetsAreNamed) {
  facts.set("backend.cpu.meets_slo", false, "override");
  facts.set("backend.vulkan.meets_slo", false, "override");
  EXPECT_EQ(refusal(), "No usable engine is predicted to hold the SLO: cpu, vulkan:latency.");
}

}  // namespace
}  // namespace flyball::route
