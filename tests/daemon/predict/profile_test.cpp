// Targets of one engine with different profiles: what their request settings change in the sum, and what is
// learned of them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/predict/predictor.hpp"
#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::predict {
namespace {

using namespace std::chrono_literals;

const config::RequestSettings kUsual, kLatency{20ms, config::QueuePlace::ahead},
    kAhead{{}, config::QueuePlace::ahead}, kNight{{}, config::QueuePlace::behind},
    kBudget{20ms, config::QueuePlace::usual};

// An engine whose usual steps take some 100 ms: a budget of 20 ms is shorter.
struct SlowEngine {
  Predictor predictor{KeyedHash(1, 2)};
  std::vector<EngineState> engines{{"cpu", true, 1, 100'000, 2'000}};
  std::vector<ProfileTarget> profiles{{"cpu", "latency", kLatency}, {"cpu", "night", kNight}};
  policy::Facts facts = machine();
  double now = 0;

  SlowEngine() {
    SimulatedEngine engine(predictor, 4, 1);
    engine.costs = {40e-3, 5e-3, 2e-3, 10e-3, 0};
    std::vector<Simulated> requests(40);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].app = i % 3 == 0 ? "agent" : "chat";
      requests[i].at =
          20.0 * static_cast<double>(i / 2) + 0.05 * static_cast<double>(i % 2);  // two at a time
      requests[i].prompt = 60 + 37 * static_cast<std::uint32_t>(i % 7);
      requests[i].output = 30;
    }
    engine.run(requests);
    now = engine.now() + 1;
  }
  Query query(std::uint32_t tokens, const config::RequestSettings& settings = kUsual,
              const char* app = "chat") {
    Query out;
    out.app = app;
    out.model = "m";
    out.prompt = std::make_shared<const PromptPrint>(PromptPrint{.bytes = tokens * 5, .tokens = tokens});
    out.slots = 4;
    out.engines = engines;
    out.now = at(now);
    out.settings = settings;
    return out;
  }
  Prediction expect(std::uint32_t tokens, const config::RequestSettings& settings = kUsual) {
    return predictor.expect(query(tokens, settings), "cpu", true, 700).value();
  }
  Predictor::Place prefills(std::uint32_t tokens, const config::RequestSettings& settings = kUsual) {
    auto place = predictor.enter({query(tokens, settings, "agent"), "cpu", facts});
    place.began(at(now));
    return place;
  }
  Predictor::Place decodes(const config::RequestSettings& settings = kUsual) {
    auto place = prefills(50, settings);
    place.received({"t", {1}, {}, 50, 0}, at(now += 0.2));
    return place;
  }
  const policy::Fact* fact(policy::TargetFact which, const char* profile) {
    return facts.get(facts.targets()->fact_of("cpu", which), profile);
  }
};

TEST(Profiles, APromptAheadDoesNotWaitForUsualOnes) {
  SlowEngine engine;
  const auto shorter = engine.prefills(200);
  const Prediction usual = engine.expect(400), ahead = engine.expect(400, kAhead);
  EXPECT_GT(usual.queue, 300'000);
  EXPECT_EQ(ahead.queue, 0);
  EXPECT_LT(ahead.ttft.p50, usual.ttft.p50);
}

TEST(Profiles, APromptBehindWaitsForLongerOnes) {
  SlowEngine engine;
  const auto longer = engine.prefills(2000);
  EXPECT_EQ(engine.expect(100).queue, 0);
  EXPECT_GT(engine.expect(100, kNight).queue, 3'000'000);
  const auto ahead = engine.prefills(2000, kLatency);
  EXPECT_GT(engine.expect(100).queue, 3'000'000) << "nobody usual overtakes one that is ahead";
}

TEST(Profiles, ThoseBehindAreNotThereForOthers) {
  SlowEngine engine;
  const Prediction alone = engine.expect(100);
  const auto prompt = engine.prefills(2000, kNight), stream = engine.decodes(kNight);
  const Prediction beside = engine.expect(100);
  const auto near = [](std::int64_t one, std::int64_t other) {
    return std::abs(static_cast<double>(one - other)) < 0.03 * static_cast<double>(other);
  };
  EXPECT_TRUE(near(beside.ttft.p50, alone.ttft.p50)) << beside.ttft.p50 << " and " << alone.ttft.p50;
  EXPECT_TRUE(near(beside.tpot->p50, alone.tpot->p50)) << beside.tpot->p50 << " and " << alone.tpot->p50;
  const auto usual = engine.decodes();
  EXPECT_FALSE(near(engine.expect(100).tpot->p50, alone.tpot->p50));
}

// 30 tokens of some 45 ms.
TEST(Profiles, APromptBehindWaitsForTheAnswersOfOthers) {
  SlowEngine engine;
  const auto stream = engine.decodes();
  EXPECT_EQ(engine.expect(100).queue, 0);
  EXPECT_NEAR(static_cast<double>(engine.expect(100, kNight).queue), 1.35e6, 0.5e6);
}

TEST(Profiles, ThoseBehindHaveALineOfTheirOwn) {
  SlowEngine engine;
  Query query = engine.query(100);
  TurnForecast turn, behind;
  behind.before = behind.waiting = behind.ends = 4;
  behind.taken = 4;
  const std::vector<LineState> lines{{"cpu", turn, behind}};
  query.lines = lines;
  const auto queue = [&](const config::RequestSettings& settings) {
    query.settings = settings;
    const auto first = engine.prefills(300);
    return engine.predictor.expect(query, "cpu", true, 700).value().queue;
  };
  EXPECT_GT(queue(kNight), queue(kLatency) + 500'000);
}

TEST(Profiles, ABudgetComputesAPromptInMoreStepsBesideAStream) {
  SlowEngine engine;
  EXPECT_EQ(engine.expect(400, kBudget).prefill, engine.expect(400).prefill) << "alone it guards nobody";
  const auto stream = engine.decodes();
  const Prediction usual = engine.expect(400), budget = engine.expect(400, kBudget);
  // Steps of 16 tokens, each with some 45 ms of its own, and not of 28.
  EXPECT_GT(budget.prefill, usual.prefill + 250'000);
  EXPECT_LT(budget.prefill, usual.prefill + 900'000);
}

TEST(Profiles, AStreamWithABudgetSlowsOthersPrompts) {
  const auto prefill_beside = [](const config::RequestSettings& settings) {
    SlowEngine engine;
    const auto stream = engine.decodes(settings);
    return engine.expect(400).prefill;
  };
  EXPECT_GT(prefill_beside(kLatency), prefill_beside(kUsual) + 250'000);
}

TEST(Profiles, ABudgetBoundsTheTokensOfPromptsInAStreamsSteps) {
  SlowEngine engine;
  const auto stream = engine.decodes();
  // Each token of its answer has 60 tokens of its further prompts beside it.
  const auto expect = [&](const config::RequestSettings& settings) {
    Query query = engine.query(100, settings);
    query.answers = 2;
    query.further_tokens = 60.0 * 30;
    return engine.predictor.expect(query, "cpu", true, 700).value();
  };
  EXPECT_LT(expect(kBudget).tpot->p50, expect(kUsual).tpot->p50 * 8 / 10);
}

TEST(Profiles, ARequestThatIsDecidedAgainCountsWithItsNewSettings) {
  SlowEngine engine;
  auto longer = engine.prefills(2000);
  EXPECT_EQ(engine.expect(100).queue, 0);
  longer.asks(kLatency);
  EXPECT_GT(engine.expect(100).queue, 3'000'000);

  SlowEngine other;
  auto stream = other.decodes();
  const std::int64_t usual = other.expect(400).prefill;
  stream.asks(kBudget);
  EXPECT_GT(other.expect(400).prefill, usual + 250'000);
  stream.asks(kUsual);
  EXPECT_EQ(other.expect(400).prefill, usual);
}

// Its steps are shorter than those that it was predicted with: nobody knows how much of its time that is.
TEST(Profiles, ARequestThatIsDecidedAgainTeachesNoPrefill) {
  SlowEngine engine;
  const auto before = static_cast<double>(engine.expect(400).prefill);
  for (int i = 0; i < 20; ++i) {
    auto place = engine.prefills(400);
    place.asks(kBudget);
    place.received({"t", {1}, {}, 400, 0}, at(engine.now += 3 * before / 1e6));
    place.finished({400, 1, 0}, {}, at(engine.now));
  }
  EXPECT_NEAR(static_cast<double>(engine.expect(400).prefill), before, 0.05 * before);
}

TEST(Profiles, TargetsOfOneEngineHaveTimesOfTheirOwn) {
  SlowEngine engine;
  engine.facts.set("app.slo.ttft", std::int64_t{4'000}, "manifest");
  const auto longer = engine.prefills(2000);
  Query query = engine.query(100);
  query.profiles = engine.profiles;
  engine.predictor.predict(query, engine.facts);
  const auto ttft = [&](const char* profile) {
    return std::get<std::int64_t>(engine.fact(policy::TargetFact::expected_ttft, profile)->value);
  };
  EXPECT_EQ(ttft(""), engine.expect(100).ttft.p50);
  EXPECT_EQ(ttft("latency"), engine.expect(100, kLatency).ttft.p50);
  EXPECT_EQ(ttft("night"), engine.expect(100, kNight).ttft.p50);
  EXPECT_GT(ttft("night"), ttft("latency") + 3'000'000);
  EXPECT_TRUE(std::get<bool>(engine.fact(policy::TargetFact::meets_slo, "latency")->value));
  EXPECT_FALSE(std::get<bool>(engine.fact(policy::TargetFact::meets_slo, "night")->value));
}

TEST(Profiles, AFactThatSomebodySetHoldsWithEveryProfile) {
  SlowEngine engine;
  engine.facts.set("backend.cpu.expected_ttft", std::int64_t{5}, "override");
  const auto longer = engine.prefills(2000);
  Query query = engine.query(100);
  query.profiles = engine.profiles;
  engine.predictor.predict(query, engine.facts);
  EXPECT_EQ(std::get<std::int64_t>(engine.fact(policy::TargetFact::expected_ttft, "night")->value), 5);
  EXPECT_EQ(engine.fact(policy::TargetFact::expected_ttft_p90, "night"), nullptr);
  EXPECT_NE(std::get<std::int64_t>(engine.fact(policy::TargetFact::expected_total, "night")->value),
            std::get<std::int64_t>(engine.fact(policy::TargetFact::expected_total, "")->value));
}

TEST(Profiles, WhatSettingsDoNotExplainIsLearned) {
  SlowEngine engine;
  const Prediction first = engine.expect(100);
  const double ttft = static_cast<double>(first.ttft.p50) / 1e6,
               tpot = static_cast<double>(first.tpot->p50) / 1e6;
  const auto answer = [&](const config::RequestSettings& settings, double slower) {
    auto place = engine.predictor.enter({engine.query(100, settings), "cpu", engine.facts});
    place.began(at(engine.now));
    place.received({"t", {1}, {}, 100, 0}, at(engine.now += ttft * slower));
    place.finished({100, 30, 0}, {0, 0, static_cast<std::uint64_t>(29 * tpot * slower * 1e6)},
                   at(engine.now += 29 * tpot * slower));
    engine.now += 1;
  };
  for (int i = 0; i < 50; ++i) {
    answer(kUsual, 1);
    answer(kLatency, 2);
  }
  const Prediction usual = engine.expect(100), latency = engine.expect(100, kLatency);
  EXPECT_NEAR(static_cast<double>(usual.ttft.p50) / 1e6, ttft, 0.2 * ttft);
  EXPECT_NEAR(static_cast<double>(latency.ttft.p50) / 1e6, 2 * ttft, 0.4 * ttft);
  EXPECT_NEAR(static_cast<double>(usual.tpot->p50) / 1e6, tpot, 0.2 * tpot);
  EXPECT_NEAR(static_cast<double>(latency.tpot->p50) / 1e6, 2 * tpot, 0.4 * tpot);
}

TEST(Profiles, RatiosOfFewSettingsAreKept) {
  ProfileRatios ratios;
  for (int ms = 1; ms <= 20; ++ms) ratios.seen({std::chrono::milliseconds(ms)}).alone.add(2, 1);
  EXPECT_EQ(ratios.size(), ProfileRatios::kMost);
  EXPECT_EQ(ratios.of({1ms}), nullptr);
  ASSERT_NE(ratios.of({20ms}), nullptr);
  EXPECT_EQ(ratios.of({20ms})->alone.seen(), 1U);
}

}  // namespace
}  // namespace flyball::predict
