// The predictor beside a simulated engine: how near it comes, alone, queued and after the machine changed;
// and the terms of its sum, one by one.
#include "daemon/predict/predictor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::predict {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// |actual - p50| / actual of the requests that `of` picks, from the `skip`th on.
struct Seen {
  std::vector<double> ttft, tpot;
  double ttft_covered = 0, tpot_covered = 0;
};
Seen look(const std::vector<Simulated>& requests, std::size_t skip,
          const std::function<bool(const Simulated&)>& of) {
  Seen out;
  for (std::size_t i = skip; i < requests.size(); ++i) {
    const Simulated& r = requests[i];
    if (!r.known || !of(r)) continue;
    const Prediction& p = r.predicted;
    out.ttft.push_back(std::abs(r.ttft - p.ttft.p50 / 1e6) / r.ttft);
    out.ttft_covered += r.ttft <= p.ttft.p90 / 1e6 ? 1 : 0;
    if (!p.tpot) continue;
    out.tpot.push_back(std::abs(r.tpot - p.tpot->p50 / 1e6) / r.tpot);
    out.tpot_covered += r.tpot <= p.tpot->p90 / 1e6 ? 1 : 0;
  }
  out.ttft_covered /= std::max<double>(static_cast<double>(out.ttft.size()), 1);
  out.tpot_covered /= std::max<double>(static_cast<double>(out.tpot.size()), 1);
  return out;
}
bool any(const Simulated&) {
  return true;
}

// Two apps' requests, so many a second on average; 0: each when the one before has ended.
std::vector<Simulated> load(std::size_t n, double rate, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<Simulated> out;
  double now = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Simulated one;
    one.app = draw() % 3 == 0 ? "agent" : "chat";
    now += rate == 0 ? 10 : std::exponential_distribution<double>(rate)(draw);
    one.at = now;
    one.prompt = static_cast<std::uint32_t>(std::exp(std::normal_distribution<double>(5, 0.8)(draw))) + 8;
    one.output = 24 + draw() % 24;
    out.push_back(one);
  }
  return out;
}

TEST(Predictor, ComesNearAfterFiftyRequestsAlone) {
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, 4, 1);
  engine.costs.noise = 0.1;
  auto requests = load(450, 0, 5);
  engine.run(requests);
  const Seen seen = look(requests, 50, any);
  ASSERT_EQ(seen.ttft.size(), 400U);
  EXPECT_LE(median(seen.ttft), 0.15);
  EXPECT_LE(median(seen.tpot), 0.10);
  EXPECT_GE(seen.ttft_covered, 0.85);
  EXPECT_LE(seen.ttft_covered, 0.95);
  EXPECT_GE(seen.tpot_covered, 0.85);
  EXPECT_LE(seen.tpot_covered, 0.95);
}

class Loaded : public ::testing::TestWithParam<double> {};

TEST_P(Loaded, ComesNearWhereRequestsQueue) {
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, 4, 2);
  engine.costs.token = 0.05e-3;  // arrivals that nobody can foresee add little to a token's time
  auto requests = load(1250, GetParam(), 6);
  engine.run(requests);
  const auto queued = [](const Simulated& r) { return r.queued; };
  const Seen seen = look(requests, 50, queued);
  ASSERT_GT(seen.ttft.size(), 300U);
  EXPECT_LE(median(seen.ttft), 0.25);
  EXPECT_LE(median(seen.tpot), 0.10);
  EXPECT_GE(seen.ttft_covered, 0.85);
  EXPECT_LE(seen.ttft_covered, 0.95);
  EXPECT_GE(seen.tpot_covered, 0.85);
  EXPECT_LE(seen.tpot_covered, 0.96);
}
INSTANTIATE_TEST_SUITE_P(Rates, Loaded, ::testing::Values(3.0, 6.0, 9.0), [](const auto& rate) {
  return "Rate" + std::to_string(static_cast<int>(rate.param));
});

struct Answers {
  const char* name;
  std::uint32_t slots, answers, prompts;
};
void PrintTo(const Answers& one, std::ostream* out) {
  *out << one.name;
}
class SeveralAnswers : public ::testing::TestWithParam<Answers> {};

// They take turns at the slots: 64 answers are 16 rounds on 4 slots.
TEST_P(SeveralAnswers, EndWhenTheLastOneEnds) {
  const Answers& some = GetParam();
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, some.slots, 3);
  engine.costs.noise = 0.02;
  auto before = load(80, 0, 5);
  for (std::size_t i = 0; i < 40; ++i) before[2 * i + 1].at = before[2 * i].at;  // two at once
  for (Simulated& one : before) one.output = 32;
  engine.run(before);
  std::vector<Simulated> one(1);
  one[0].app = "chat";
  one[0].at = engine.now() + 1;
  one[0].prompt = 150;
  one[0].answers = some.answers;
  one[0].prompts = some.prompts;
  engine.run(one);
  const Prediction& p = one[0].predicted;
  ASSERT_TRUE(one[0].known && p.total);
  EXPECT_NEAR(static_cast<double>(p.ttft.p50) / 1e6, one[0].ttft, 0.2 * one[0].ttft);
  EXPECT_NEAR(static_cast<double>(p.total->p50) / 1e6, one[0].total, 0.2 * one[0].total);
  EXPECT_GE(static_cast<double>(p.total->p90) / 1e6, 0.95 * one[0].total);
}
INSTANTIATE_TEST_SUITE_P(Table, SeveralAnswers,
                         ::testing::Values(Answers{"One", 4, 1, 1}, Answers{"AsManyAsSlots", 4, 4, 1},
                                           Answers{"SixteenRounds", 4, 64, 1}, Answers{"OneSlot", 1, 8, 1},
                                           Answers{"ManyMore", 4, 400, 1}, Answers{"Prompts", 4, 8, 8},
                                           Answers{"AnswersToPrompts", 4, 12, 3}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Predictor, FollowsAMachineThatBecameTwiceAsSlow) {
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, 4, 1);
  auto before = load(100, 0, 5);
  engine.run(before);
  engine.costs = {8e-3, 1e-3, 0.4e-3, 2e-3, 0.05};
  auto after = load(60, 0, 6);
  for (Simulated& one : after) one.at += engine.now();
  engine.run(after);
  const Seen seen = look(after, 30, any);
  EXPECT_LE(median(seen.ttft), 0.15);
  EXPECT_LE(median(seen.tpot), 0.10);
}

TEST(Predictor, OutliersMoveItLittle) {
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, 4, 1);
  auto requests = load(60, 0, 5);
  engine.run(requests);
  engine.costs.step = 1;  // somebody stopped the process for a while
  auto slow = load(2, 0, 7);
  for (Simulated& one : slow) one.at += engine.now();
  engine.run(slow);
  engine.costs = {};
  auto after = load(20, 0, 8);
  for (Simulated& one : after) one.at += engine.now();
  engine.run(after);
  const Seen seen = look(after, 0, any);
  EXPECT_LE(median(seen.ttft), 0.15);
  EXPECT_LE(median(seen.tpot), 0.10);
}

// Six answers ten times as slow, and three as before.
class Recovered : public ::testing::TestWithParam<int> {};

TEST_P(Recovered, ThreeGoodAnswersHealTheFigures) {
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, 4, 1);
  const auto answers = [&](std::size_t n, std::uint64_t seed) {
    auto requests = load(n, 0, seed);
    for (Simulated& one : requests) one.at += engine.now();
    engine.run(requests);
    return requests;
  };
  if (GetParam() > 0) answers(static_cast<std::size_t>(GetParam()), 5);
  engine.costs = {40e-3, 5e-3, 2e-3, 10e-3, 0.05};
  answers(6, 6);
  engine.costs = {};
  answers(3, 7);
  for (const Simulated& one : answers(30, 8)) {
    ASSERT_TRUE(one.known);
    EXPECT_LE(static_cast<double>(one.predicted.ttft.p90) / 1e6, 2.5 * one.ttft);
    EXPECT_LE(static_cast<double>(one.predicted.tpot->p90) / 1e6, 2.5 * one.tpot);
  }
}
INSTANTIATE_TEST_SUITE_P(After, Recovered, ::testing::Values(0, 6, 40, 200),
                         [](const auto& good) { return std::to_string(good.param) + "GoodAnswers"; });

// A machine that others use for some answers at a time.
struct Bursts {
  std::size_t length;
  double factor;
};
void PrintTo(const Bursts& one, std::ostream* out) {
  *out << one.length << " answers at " << one.factor << " times the time";
}
class Alternating : public ::testing::TestWithParam<Bursts> {};

TEST_P(Alternating, NineInTenStayBelowTheirP90) {
  Predictor predictor(KeyedHash(1, 2));
  SimulatedEngine engine(predictor, 4, 1);
  const auto [length, factor] = GetParam();
  std::vector<Simulated> all;
  const auto answers = [&](std::size_t n, std::uint64_t seed) {
    auto requests = load(n, 0, seed);
    for (Simulated& one : requests) one.at += engine.now();
    engine.run(requests);
    all.insert(all.end(), requests.begin(), requests.end());
  };
  answers(40, 5);
  for (std::uint64_t burst = 0; burst < 60; ++burst) {
    engine.costs = {};
    if (burst % 2 == 0) engine.costs = {4e-3 * factor, 0.5e-3 * factor, 0.2e-3 * factor, 1e-3 * factor, 0.05};
    answers(length, 100 + burst);
  }
  const Seen seen = look(all, 40, any);
  EXPECT_GE(seen.ttft_covered, 0.85);
  EXPECT_GE(seen.tpot_covered, 0.85);
}
INSTANTIATE_TEST_SUITE_P(Of, Alternating,
                         ::testing::Values(Bursts{3, 2.5}, Bursts{3, 4}, Bursts{5, 2.5}, Bursts{5, 4}),
                         [](const auto& one) {
                           return std::to_string(one.param.length) + "AtTimes" +
                                  std::to_string(static_cast<int>(one.param.factor * 10)) + "Tenths";
                         });

// ---- the terms of the sum ---------------------------------------------------------------------------------

struct Asks {
  Predictor predictor{KeyedHash(1, 2)};
  std::vector<EngineState> engines{{"cpu", true, 1, 100'000, 2'000}, {"vulkan", true, 2}};
  policy::Facts facts = machine();
  double now = 410;  // the last request came at 400

  Asks() {
    SimulatedEngine engine(predictor, 2, 1);
    engine.costs.noise = 0;
    auto requests = load(40, 0, 5);
    engine.run(requests);
  }
  Query query(const std::string& text, const char* app = "chat") {
    Query out;
    out.app = app;
    out.model = "m";
    out.prompt = std::make_shared<const PromptPrint>(predictor.print_of(TextPrompt{text}, app));
    out.slots = 2;
    out.engines = engines;
    out.now = at(now);
    return out;
  }
  Prediction expect(const Query& query, const char* backend = "cpu") {
    const auto got = predictor.expect(query, backend, true, 700);
    EXPECT_TRUE(got);
    return got.value_or(Prediction{});
  }
  Predictor::Place enter(const Query& query, const char* backend = "cpu") {
    return predictor.enter({query, backend, facts});
  }
  const policy::Fact* fact(const char* name) { return facts.get(std::string("backend.cpu.") + name); }
};
const std::string kPrompt(4000, 'x');

TEST(Predictor, SaysNothingWithoutABasis) {
  Asks asks;
  EXPECT_FALSE(asks.predictor.expect(asks.query(kPrompt), "vulkan", true, 700)) << "nothing ran there";
  asks.predictor.predict(asks.query(kPrompt), asks.facts);
  EXPECT_EQ(asks.facts.get("backend.vulkan.expected_ttft"), nullptr);
  EXPECT_NE(asks.fact("expected_ttft"), nullptr);
}

TEST(Predictor, SetsFactsWithTheSumAsTheirSource) {
  Asks asks;
  asks.predictor.predict(asks.query(kPrompt), asks.facts);
  const Prediction p = asks.expect(asks.query(kPrompt));
  EXPECT_EQ(p.queue + p.load + p.prefill + p.step, p.ttft.p50);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_ttft")->value), p.ttft.p50);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_tpot")->value), p.tpot->p50);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_total")->value), p.total->p50);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("cached_tokens")->value), 0);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("kv_room")->value), 98'000);
  EXPECT_EQ(asks.fact("meets_slo"), nullptr) << "no SLO is declared";
  const std::string& source = asks.fact("expected_ttft")->source;
  EXPECT_TRUE(source.starts_with("predicted: queue 0 ms + load 0 ms + prefill ")) << source;
  EXPECT_NE(source.find(" tokens, 0 cached) + step "), std::string::npos) << source;
}

TEST(Predictor, SetsTheTimesOfNineInTenAsFacts) {
  Asks asks;
  asks.predictor.predict(asks.query(kPrompt), asks.facts);
  const Prediction p = asks.expect(asks.query(kPrompt));
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_ttft_p90")->value), p.ttft.p90);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_tpot_p90")->value), p.tpot->p90);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_total_p90")->value), p.total->p90);
  EXPECT_EQ(asks.fact("expected_ttft_p90")->source, "predicted");
}

TEST(Predictor, KeepsFactsThatSomebodySet) {
  Asks asks;
  asks.facts.set("backend.cpu.expected_ttft", std::int64_t{5}, "override");
  asks.predictor.predict(asks.query(kPrompt), asks.facts);
  EXPECT_EQ(std::get<std::int64_t>(asks.fact("expected_ttft")->value), 5);
  EXPECT_EQ(asks.fact("expected_ttft_p90"), nullptr) << "it would be of another prediction";
}

TEST(Predictor, HoldsAnSloByNineInTen) {
  const auto meets = [](std::int64_t ttft_ms, std::int64_t tpot_ms) {
    Asks asks;
    asks.facts.set("app.slo.ttft", ttft_ms, "manifest");
    asks.facts.set("app.slo.tpot", tpot_ms, "manifest");
    asks.predictor.predict(asks.query(kPrompt), asks.facts);
    return std::get<bool>(asks.fact("meets_slo")->value);
  };
  Asks asks;
  const Prediction p = asks.expect(asks.query(kPrompt));
  EXPECT_TRUE(meets(p.ttft.p90 / 1000 + 1, p.tpot->p90 / 1000 + 1));
  EXPECT_FALSE(meets(p.ttft.p90 / 1000 - 1, p.tpot->p90 / 1000 + 1));
  EXPECT_FALSE(meets(p.ttft.p90 / 1000 + 1, 1));
}

TEST(Predictor, AnIdleEngineIsNotRefusedByAStaleFigure) {
  Asks asks;
  asks.facts.set("app.slo.ttft", std::int64_t{1}, "manifest");
  policy::Facts later = asks.facts;
  asks.predictor.predict(asks.query(kPrompt), asks.facts);
  ASSERT_NE(asks.fact("meets_slo"), nullptr);
  EXPECT_FALSE(std::get<bool>(asks.fact("meets_slo")->value));
  asks.now += 60;
  asks.predictor.predict(asks.query(kPrompt), later);
  EXPECT_EQ(later.get("backend.cpu.meets_slo"), nullptr) << "it may be faster by now";
  EXPECT_NE(later.get("backend.cpu.expected_ttft"), nullptr);
}

TEST(Predictor, AStaleFigureStillRefusesByAHardSlo) {
  Asks asks;
  asks.facts.set("app.slo.ttft", std::int64_t{1}, "manifest");
  asks.now += 60;
  Query query = asks.query(kPrompt);
  query.hard_slo = true;
  asks.predictor.predict(query, asks.facts);
  ASSERT_NE(asks.fact("meets_slo"), nullptr) << "the gate finds out whether it still holds";
  EXPECT_FALSE(std::get<bool>(asks.fact("meets_slo")->value));
}

TEST(Predictor, KnowsSinceWhenAnEngineIsIdle) {
  Asks asks;
  EXPECT_EQ(asks.predictor.idle_since("m", "vulkan"), TimePoint{}) << "nobody ever used it";
  auto place = asks.enter(asks.query(kPrompt));
  EXPECT_EQ(asks.predictor.idle_since("m", "cpu"), std::nullopt) << "an answer waits there";
  place.began(at(asks.now += 1));
  place = {};
  EXPECT_EQ(asks.predictor.idle_since("m", "cpu"), at(asks.now));
  auto other = asks.enter(asks.query(kPrompt), "vulkan");
  other.began(at(asks.now += 1));
  EXPECT_EQ(asks.predictor.idle_since("m", "cpu"), std::nullopt) << "it computes on the same cores";
  other = {};
  EXPECT_EQ(asks.predictor.idle_since("m", "cpu"), at(asks.now));
}

TEST(Predictor, AColdEngineLoadsFirst) {
  Asks asks;
  const Prediction warm = asks.expect(asks.query(kPrompt));
  EXPECT_EQ(warm.load, 0);
  asks.engines.clear();
  const Prediction cold = asks.expect(asks.query(kPrompt));
  EXPECT_EQ(cold.load, 700'000);
  EXPECT_EQ(cold.ttft.p50, warm.ttft.p50 + 700'000);
  // Its load is seen once, and counts from then on where no book has one; what is left of one under way
  // counts for the next.
  auto place = asks.enter(asks.query(kPrompt));
  asks.now += 0.5;
  EXPECT_LT(asks.expect(asks.query(kPrompt, "agent")).load, 250'000);
  asks.now += 1.5;
  place.began(at(asks.now));
  place = {};
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).load, 700'000) << "the book counts every load";
  const auto without_book = asks.predictor.expect(asks.query(kPrompt), "cpu", true);
  ASSERT_TRUE(without_book);
  EXPECT_NEAR(static_cast<double>(without_book->load), 2e6, 1e4);
}

TEST(Predictor, SaysWhatAColdEngineWouldTakeIfItWereLoaded) {
  Asks asks;
  asks.facts.set("app.slo.ttft", std::int64_t{60'000}, "manifest");
  asks.facts.set("backend.cpu.load_time", std::int64_t{600'000}, "predicted");
  policy::Facts warm = asks.facts, cold = asks.facts;
  asks.predictor.predict(asks.query(kPrompt), warm);
  asks.engines.clear();
  cold.set("backend.cpu.loaded", false, "supervisor");
  asks.predictor.predict(asks.query(kPrompt), cold);
  const auto number = [](const policy::Facts& facts, const char* name) {
    return std::get<std::int64_t>(facts.get(name)->value);
  };
  EXPECT_GE(number(cold, "backend.cpu.expected_ttft"), 600'000'000);
  EXPECT_FALSE(cold.is_true(*policy::find_fact("backend.cpu.meets_slo")));
  policy::Facts as_if = cold;
  asks.predictor.predict_loaded(asks.query(kPrompt), "cpu", as_if);
  for (const char* name :
       {"backend.cpu.expected_ttft", "backend.cpu.expected_ttft_p90", "backend.cpu.expected_tpot",
        "backend.cpu.expected_total", "backend.cpu.expected_total_p90"})
    EXPECT_EQ(number(as_if, name), number(warm, name)) << name;
  EXPECT_TRUE(as_if.is_true(*policy::find_fact("backend.cpu.meets_slo")));
  EXPECT_TRUE(as_if.is_true(*policy::find_fact("backend.cpu.loaded")));
  asks.predictor.predict(asks.query(kPrompt), asks.facts);
  EXPECT_GE(number(asks.facts, "backend.cpu.expected_ttft"), 600'000'000)
      << "the engine is as cold as before";
}

TEST(Predictor, ALoadThatNobodySawEndTeachesNothing) {
  Asks asks;
  asks.engines.clear();
  { const auto gone = asks.enter(asks.query(kPrompt)); }
  asks.now += 3'600;
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).load, 700'000) << "it is not under way";
  auto place = asks.enter(asks.query(kPrompt));
  place.began(at(asks.now += 0.7));
  place = {};
  EXPECT_NEAR(static_cast<double>(asks.expect(asks.query(kPrompt)).load), 7e5, 1e5);
}

TEST(Predictor, ALoadGoesOnWithoutTheRequestThatItBeganFor) {
  Asks asks;
  asks.engines.clear();
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).load, 700'000);
  { const auto gone = asks.enter(asks.query(kPrompt)); }
  asks.now += 0.5;
  EXPECT_NEAR(static_cast<double>(asks.expect(asks.query(kPrompt)).load), 2e5, 1e3);
  auto place = asks.enter(asks.query(kPrompt));
  place.began(at(asks.now += 0.2));
  place = {};
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).load, 700'000) << "its end alone was seen";
}

TEST(Predictor, AHeldPrefixIsNotComputedAgain) {
  Asks asks;
  const Prediction first = asks.expect(asks.query(kPrompt));
  EXPECT_EQ(first.cached_tokens, 0U);
  const auto answer = [&](std::uint32_t cached) {
    auto place = asks.enter(asks.query(kPrompt));
    place.began(at(asks.now += 0.001));
    place.received({"t", {1}, {}, 800, cached}, at(asks.now += 0.2));
    place.finished({800, 30, cached}, {0, 0, 150'000}, at(asks.now += 0.15));
  };
  answer(0);
  const Prediction again = asks.expect(asks.query(kPrompt));
  EXPECT_GE(again.cached_tokens, again.prompt_tokens * 9 / 10);
  EXPECT_LT(again.prefill, first.prefill / 4);
  EXPECT_EQ(asks.expect(asks.query(kPrompt, "agent")).cached_tokens, 0U) << "another app's";
  for (int i = 0; i < 10; ++i) answer(0);  // the engine holds nothing, whatever is thought of it
  EXPECT_LT(asks.expect(asks.query(kPrompt)).cached_tokens, again.cached_tokens / 4);
}

TEST(Predictor, AnotherProcessHoldsNoPrefix) {
  Asks asks;
  auto place = asks.enter(asks.query(kPrompt));
  place.began(at(asks.now));
  place.received({"t", {1}, {}, 800, 0}, at(asks.now += 0.2));
  place = {};
  EXPECT_GT(asks.expect(asks.query(kPrompt)).cached_tokens, 0U);
  asks.engines[0].process = 99;
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).cached_tokens, 0U);
}

TEST(Predictor, ForgetsWhatItLearnedOfAFileThatWasReplaced) {
  Asks asks;
  const auto knows = [&] { return asks.predictor.expect(asks.query(kPrompt), "cpu", true, 700).has_value(); };
  asks.engines[0].digest = "old";
  EXPECT_TRUE(knows());
  asks.engines[0].digest = "new";
  EXPECT_FALSE(knows());
}

TEST(Predictor, WaitsForASlot) {
  Asks asks;
  auto one = asks.enter(asks.query(kPrompt)), two = asks.enter(asks.query(kPrompt));
  for (auto* place : {&one, &two}) {
    place->began(at(asks.now));
    place->received({"t", {1}, {}, 800, 0}, at(asks.now += 0.2));
  }
  const Prediction next = asks.expect(asks.query(kPrompt));
  EXPECT_GT(next.queue, 2 * next.tpot->p50) << "both slots are taken";
  auto three = asks.enter(asks.query(kPrompt)), four = asks.enter(asks.query(kPrompt));
  EXPECT_GT(asks.expect(asks.query(kPrompt)).queue, next.queue) << "two more wait before it";
  Query newcomer = asks.query(kPrompt, "newcomer");
  const LineState yields{"cpu", {.before = 0, .ends = 0, .taken = 2, .waiting = 2}};
  newcomer.lines = {&yields, 1};
  EXPECT_LT(asks.expect(newcomer).queue, next.queue) << "the other app yields a place";
  one = {};
  two = {};
  three = {};
  four = {};
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).queue, 0);
}

// 800 tokens are half computed when 80 come, which go first.
TEST(Predictor, APromptThatGaveWayKeepsWhatIsComputed) {
  Asks asks;
  auto longer = asks.enter(asks.query(kPrompt));
  longer.began(at(asks.now));
  const std::int64_t whole = asks.expect(asks.query(kPrompt)).queue;
  asks.now += static_cast<double>(whole) / 2e6;
  const std::int64_t half = asks.expect(asks.query(kPrompt)).queue;
  EXPECT_NEAR(static_cast<double>(half), static_cast<double>(whole) / 2, static_cast<double>(whole) / 50);
  {
    auto shorter = asks.enter(asks.query(std::string(400, 'y')));
    shorter.began(at(asks.now));
    shorter.received({"t", {1}, {}, 80, 0}, at(asks.now += static_cast<double>(whole) / 10e6));
  }
  const std::int64_t after = asks.expect(asks.query(kPrompt)).queue;
  EXPECT_NEAR(static_cast<double>(after), static_cast<double>(half), static_cast<double>(whole) / 20);
}

TEST(Predictor, TokensWaitForPartsOfALongPromptBehind) {
  Asks asks;
  const std::string prompt(400, 'y');
  const Prediction alone = asks.expect(asks.query(prompt));
  auto longer = asks.enter(asks.query(kPrompt));
  longer.began(at(asks.now));
  const Prediction before_it = asks.expect(asks.query(prompt));
  EXPECT_EQ(before_it.queue, 0) << "the shorter prompt goes first";
  EXPECT_GT(before_it.tpot->p50, alone.tpot->p50 * 5 / 4)
      << "and its tokens wait for parts of the longer one";
}

// Pairs of short requests, of which the second finds the first; then a long one asks, or a short one.
struct Pairs : Asks {
  explicit Pairs(double apart, std::uint32_t answers = 1) {
    for (int i = 0; i < 200; ++i) {
      Query query = asks_for('y');
      query.request = 1000 + static_cast<std::uint64_t>(2 * i);
      std::vector<Predictor::Place> places;
      for (std::uint32_t n = 0; n < answers; ++n) places.push_back(enter(query));
      if (answers == 1) {
        query = asks_for('z');
        query.request = 1001 + static_cast<std::uint64_t>(2 * i);
        places.push_back(enter(query));
      }
      for (std::size_t n = 0; n < places.size(); ++n) {
        places[n].began(at(now));
        places[n].received({"t", {1}, {}, 80, n > 0 && answers > 1 ? 79U : 0U}, at(now + 0.02));
      }
      now += apart;
      for (auto& place : places) place.finished({80, 30, 0}, {}, at(now));
    }
  }
  Query asks_for(char letter, std::size_t bytes = 400) { return query(std::string(bytes, letter)); }
};

TEST(Predictor, ExpectsThoseWhoUsuallyCome) {
  Pairs often(0.2), seldom(20), alone(0.2, 2);
  for (Asks* asks : {static_cast<Asks*>(&often), static_cast<Asks*>(&seldom), static_cast<Asks*>(&alone)})
    for (EngineState& engine : asks->engines) engine.kv_tokens = 0;
  const auto queue = [](Pairs& pairs, std::uint32_t slots, config::QueuePlace place = {}) {
    Query query = pairs.asks_for('x', 40'000);
    query.slots = slots;
    query.settings.place = place;
    return pairs.expect(query).queue;
  };
  EXPECT_EQ(queue(seldom, 8), 0) << "one in 20 s";
  EXPECT_EQ(queue(alone, 8), 0) << "the answers of one client's request";
  EXPECT_GT(queue(often, 8), 50'000) << "five a second, before a prompt of seconds";
  EXPECT_EQ(queue(often, 1), 0) << "nobody gets a slot";
  EXPECT_EQ(queue(often, 8, config::QueuePlace::ahead), 0) << "nobody goes before it";
  const auto tpot = [](Pairs& pairs, std::uint32_t slots) {
    Query query = pairs.query(std::string(400, 'x'), "writer");  // of long answers
    query.slots = slots;
    query.max_tokens = query.declared_output = 400;
    return pairs.expect(query).tpot->p50;
  };
  EXPECT_GT(tpot(often, 8), tpot(often, 1));
  often.now += 3600;
  EXPECT_EQ(queue(often, 8), 0) << "an hour ago";
}

TEST(Predictor, APromptBehindIsComputedWhileARequestWaitsForItsSlot) {
  Asks asks;
  auto decodes = asks.enter(asks.query(kPrompt, "decodes")), longer = asks.enter(asks.query(kPrompt));
  decodes.began(at(asks.now));
  decodes.received({"t", {1}, {}, 800, 0}, at(asks.now));
  longer.began(at(asks.now));
  const std::string prompt(400, 'y');
  const Prediction waits = asks.expect(asks.query(prompt));
  EXPECT_GT(waits.queue, 0) << "both slots are taken";
  Query free = asks.query(prompt);
  free.slots = 8;
  const Prediction beside = asks.expect(free);
  EXPECT_EQ(beside.queue, 0);
  EXPECT_LT(waits.tpot->p50, beside.tpot->p50);
}

TEST(Predictor, ARequestThatWaitsIsNotAheadOfItself) {
  Asks asks;
  Query query = asks.query(kPrompt);
  query.request = 7000;
  const auto place = asks.enter(query);
  EXPECT_EQ(asks.expect(query).queue, 0);
  EXPECT_GT(asks.expect(asks.query(kPrompt)).queue, 0);
}

TEST(Predictor, EnginesOnTheSameCoresSlowEachOther) {
  Asks asks;
  // The other engine is at work on the same cores.
  auto other = asks.enter(asks.query(kPrompt), "vulkan");
  const Prediction before = asks.expect(asks.query(kPrompt));
  other.began(at(asks.now));
  const Prediction beside = asks.expect(asks.query(kPrompt));
  EXPECT_NEAR(static_cast<double>(beside.ttft.p50), 2.0 * static_cast<double>(before.ttft.p50), 10);
  EXPECT_NEAR(static_cast<double>(beside.tpot->p50), 2.0 * static_cast<double>(before.tpot->p50), 10);
  other = {};
  EXPECT_EQ(asks.expect(asks.query(kPrompt)).ttft.p50, before.ttft.p50);
}

TEST(Predictor, TellsHowFarItWasOff) {
  Asks asks;
  const auto quality = asks.predictor.quality();
  ASSERT_EQ(quality.size(), 1U);
  EXPECT_EQ(quality[0].backend, "cpu");
  EXPECT_GT(quality[0].ttft->seen(), 30U);
  EXPECT_LT(quality[0].ttft->error(), 0.1);
  EXPECT_GT(quality[0].tpot->seen(), 30U);
}

TEST(Predictor, KnowsBoundedlyManyModelsAndApps) {
  Predictor predictor(KeyedHash(1, 2));
  const policy::Facts facts = machine();
  Query query;
  query.prompt = std::make_shared<const PromptPrint>(PromptPrint{.bytes = 100});
  query.model = "m";
  std::string name;
  for (std::size_t i = 0; i <= Predictor::kMostApps; ++i) {
    name = "app" + std::to_string(i);
    query.app = name;
    EXPECT_EQ(static_cast<bool>(predictor.enter({query, "cpu", facts})), i < Predictor::kMostApps) << i;
  }
}

TEST(Predictor, UpstreamsAreNotPredicted) {
  Asks asks;
  EXPECT_FALSE(asks.enter(asks.query(kPrompt), "vllm"));
}

}  // namespace
}  // namespace flyball::predict
