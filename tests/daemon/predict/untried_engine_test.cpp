// An engine that was never measured: its times are assumed, with a wide error bar; a request tries it where
// the policy lists it first, and what that request shows counts from then on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/predict/predictor.hpp"
#include "policy/pick.hpp"
#include "policy/tree.hpp"
#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::predict {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kToday = 1'800'000'000;
constexpr std::int64_t kMs = 1000;
const std::string kQuestion(2000, 'x');

measure::Engine processor() {
  return {"cpu", "a processor", "v1", {40, 400, 1600, kToday}, {}, {}};
}
measure::Engine gpu(const char* kind) {
  return {"opencl", "a GPU", "d1", {}, {"a GPU"}, {kind}};
}

// A processor, one GPU of this kind, and a model of 1.1 GB.
struct Machine {
  explicit Machine(const char* kind, std::vector<measure::Measured> measured = {}) {
    const std::vector<measure::Engine> probed{processor(), gpu(kind)};
    config::ModelEntry model;
    model.id = "m";
    model.embedded = true;
    book = measure::Book(measured, probed, {&model, 1},
                         {{{"m", {1'100'000'000, 1'000'000'000, 1'100'000'000, false, false}}}});
  }

  Query query() {
    const std::string text = std::to_string(++asked) + kQuestion;  // another prompt: its prefix is not cached
    Query out;
    out.app = "app";
    out.model = "m";
    out.prompt = std::make_shared<const PromptPrint>(predictor.print_of(TextPrompt{text}, "app"));
    out.max_tokens = 32;
    out.engines = engines;
    out.book = &book;
    out.unix_seconds = kToday;
    out.now = at(now);
    out.hard_slo = hard_slo;
    out.request = number;
    return out;
  }
  // The facts of a request of such an app on this machine now.
  policy::Facts facts(std::optional<std::int64_t> slo_ttft = {}, const char* workload = "chat") {
    policy::Facts out;
    const auto set = [&](const char* name, policy::FactValue value) {
      out.set(name, std::move(value), "test");
    };
    set("hardware.gpu.count", std::int64_t{1});
    set("hardware.gpu.discrete_count", std::int64_t{1});
    set("hardware.gpu.vendor", std::string("nvidia"));
    set("hardware.memory.unified", false);
    set("hardware.cluster.nodes", std::int64_t{1});
    set("app.privacy", std::string("local_only"));
    set("workload.class", std::string(workload));
    set("workload.delivery", std::string("service"));
    set("workload.modalities", std::vector<std::string>{"text"});
    for (const char* backend : {"cpu", "opencl"}) {
      set((std::string("backend.") + backend + ".available").c_str(), true);
      const auto state = std::ranges::find(engines, std::string_view(backend), &EngineState::backend);
      set((std::string("backend.") + backend + ".loaded").c_str(), state != engines.end() && state->loaded);
    }
    if (!fits) set("backend.opencl.fits_now", false);
    if (slo_ttft) set("app.slo.ttft", *slo_ttft);
    policy::derive(out);
    book.set_facts("m", kToday, out);
    predictor.predict(query(), out);
    return out;
  }
  bool trial_due(std::optional<std::int64_t> slo_ttft = {}) {
    return facts(slo_ttft).get("backend.opencl.trial_due") != nullptr;
  }
  Predictor::Place enter() { return predictor.enter({query(), "opencl", facts()}); }
  // A request there, to its first token and a last one behind 32.
  void request(double prefill_seconds, double token_seconds) {
    auto place = enter();
    place.began(at(now));
    Delta delta;
    delta.tokens = {1};
    delta.prompt_tokens = 500;
    place.received(delta, at(now += prefill_seconds));
    Usage usage;
    usage.prompt_tokens = 500;
    usage.completion_tokens = 33;
    Timings timings;
    timings.decode_us = static_cast<std::uint64_t>(32e6 * token_seconds);
    place.finished(usage, timings, at(now += 32 * token_seconds));
  }
  void failed_request() {
    auto refused = enter();
    now += 1;
    refused.failed();
  }

  bool hard_slo = false, fits = true;
  std::uint64_t number = 0;  // of the request that asks
  std::vector<EngineState> engines{{"cpu", true, 1}, {"opencl", true, 2}};
  measure::Book book;
  Predictor predictor{KeyedHash(1, 2)};
  double now = 1000;
  int asked = 1000;
};

std::int64_t number(const policy::Facts& facts, const char* name) {
  const policy::Fact* const fact = facts.get(name);
  return fact == nullptr ? -1 : std::get<std::int64_t>(fact->value);
}

// The words of the pick in receipts.
std::string picked(const policy::Tree& tree, const policy::Facts& facts) {
  const policy::Facts known = policy::in_catalogue(facts, tree.targets);
  const policy::Decision decision = decide(tree, known);
  return decision.picks.empty() ? "" : pick_text(decision.picks[decision.picks.size() - 1], decision, known);
}
policy::Tree shipped() {
  return std::move(*policy::parse_policy(config::default_policy_yaml(), "policy.yaml"));
}
policy::Tree gpu_first(const std::string& keys) {
  return std::move(*policy::parse_policy(
      "schema: flyball.policy/v1\ndefault: {because: b, use: [opencl, cpu], " + keys + "}\n", "p.yaml"));
}

TEST(AnUnmeasuredGpu, HasBatchWorkByTheShippedPolicy) {
  Machine machine("discrete");
  EXPECT_THAT(picked(shipped(), machine.facts({}, "batch")), StartsWith("opencl:background: fastest, "));
}

TEST(AnUnmeasuredGpu, HasAChatWithAnSloByTheShippedPolicy) {
  Machine machine("discrete");
  EXPECT_THAT(picked(shipped(), machine.facts(2000)),
              StartsWith("opencl: first that meets the SLO, "));
}

TEST(AnUnmeasuredGpu, IsPredictedWithItsLoad) {
  Machine machine("discrete");
  machine.engines.clear();
  const policy::Facts facts = machine.facts();
  const std::int64_t load = 291 * kMs;  // 1.1 GB carried at 12 GB/s, and 200 ms to start
  EXPECT_GT(number(facts, "backend.opencl.expected_ttft"), load);
  EXPECT_LT(number(facts, "backend.opencl.expected_ttft"), load + 300 * kMs);
}

Times ttft_of(Machine& machine, const char* backend) {
  return machine.predictor.expect(machine.query(), backend, false)->ttft;
}

TEST(AnUnmeasuredGpu, HasAnErrorBarOfFour) {
  Machine machine("discrete");
  const Times assumed = ttft_of(machine, "opencl"), roofline = ttft_of(machine, "cpu");
  EXPECT_NEAR(static_cast<double>(assumed.p90), 4.0 * static_cast<double>(assumed.p50), 10);
  EXPECT_NEAR(static_cast<double>(roofline.p90), 2.0 * static_cast<double>(roofline.p50), 10);
  const auto total = machine.predictor.expect(machine.query(), "opencl", false);
  EXPECT_NEAR(static_cast<double>(total->tpot->p90), 4.0 * static_cast<double>(total->tpot->p50), 10);
  machine.request(0.3, 0.05);
  const Times seen = ttft_of(machine, "opencl");
  EXPECT_LT(static_cast<double>(seen.p90), 2.2 * static_cast<double>(seen.p50)) << "the doubt wanes";
}

TEST(AnUnmeasuredGpu, IsAsFastAsItsFirstRequestShows) {
  Machine machine("discrete");
  machine.request(0.3, 0.06);
  const auto seen = machine.predictor.expect(machine.query(), "opencl", false);
  EXPECT_NEAR(static_cast<double>(seen->ttft.p50), 300.0 * kMs, 20.0 * kMs);
  EXPECT_NEAR(static_cast<double>(seen->tpot->p50), 60.0 * kMs, 5.0 * kMs);
}

// A driver compiles kernels when they are first used: an H100 took 21 s for a prompt that takes it half a
// second.
TEST(AnUnmeasuredGpu, IsNotJudgedByAFirstPromptThatItsDriverCompilesFor) {
  Machine machine("discrete");
  machine.request(20, 0.06);
  EXPECT_LT(ttft_of(machine, "opencl").p50, 1000 * kMs);
  EXPECT_TRUE(machine.trial_due());
  machine.request(0.3, 0.06);
  EXPECT_NEAR(static_cast<double>(ttft_of(machine, "opencl").p50), 300.0 * kMs, 20.0 * kMs);
  EXPECT_FALSE(machine.trial_due());
}

TEST(AnUnmeasuredGpu, IsJudgedByTheFirstPromptOfItsNextProcess) {
  Machine machine("discrete");
  machine.request(20, 0.06);
  machine.engines[1].process = 3;
  machine.request(20, 0.06);
  EXPECT_NEAR(static_cast<double>(ttft_of(machine, "opencl").p50), 20'000.0 * kMs, 1000.0 * kMs);
}

TEST(AnUnmeasuredGpu, IsAsSlowAsItsSecondPromptShows) {
  Machine machine("discrete");
  for (int i = 0; i < 2; ++i) machine.request(20, 0.06);
  EXPECT_NEAR(static_cast<double>(ttft_of(machine, "opencl").p50), 20'000.0 * kMs, 1000.0 * kMs);
}

// A software device is assumed to be slow. What it is shows when it is tried.
TEST(ATrial, IsTakenByAListedTargetThatNoRequestHasSeen) {
  Machine machine("software");
  const policy::Facts facts = machine.facts();
  EXPECT_THAT(
      picked(gpu_first("pick: fastest"), facts),
      StartsWith("opencl: tried, listed before cpu and not yet seen with this model (cpu: fastest, "));
  machine.request(0.05, 0.002);
  EXPECT_THAT(picked(gpu_first("pick: fastest"), machine.facts()), StartsWith("opencl: fastest, "));
}

TEST(ATrial, IsTakenBeforeATargetThatMeetsTheSlo) {
  Machine machine("software");
  EXPECT_THAT(
      picked(gpu_first("pick: meets_slo"), machine.facts(6000)),
      StartsWith("opencl: tried, listed before cpu and not yet seen with this model (cpu: first that meets "
                 "the SLO, "));
  for (int i = 0; i < 2; ++i) machine.request(60, 5);
  EXPECT_THAT(picked(gpu_first("pick: meets_slo"), machine.facts(6000)),
              StartsWith("cpu: first that meets the SLO, "));
}

TEST(ATrial, IsDueForOneRequestAtATime) {
  Machine machine("software");
  EXPECT_TRUE(machine.trial_due());
  EXPECT_EQ(machine.facts().get("backend.opencl.trial_due")->source,
            "predicted: its speed is an estimate, and no request was seen there");
  {
    const auto place = machine.enter();
    EXPECT_FALSE(machine.trial_due()) << "one is there";
  }
  EXPECT_TRUE(machine.trial_due()) << "it showed nothing";
}

TEST(ATrial, StaysDueForTheRequestThatWaitsForIt) {
  Machine machine("software");
  machine.number = 7;
  const auto place = machine.enter();
  EXPECT_TRUE(machine.trial_due());
  machine.number = 8;
  EXPECT_FALSE(machine.trial_due());
}

TEST(ATrial, IsNotSpentByRequestsThatMoveAway) {
  Machine machine("software");
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(machine.trial_due()) << i;
    const auto moved = machine.enter();
  }
  EXPECT_TRUE(machine.trial_due());
}

TEST(ATrial, EndsWithTheFirstFigures) {
  Machine machine("software");
  machine.request(1, 0.1);
  EXPECT_FALSE(machine.trial_due());
}

TEST(ATrial, RestsAnHourAfterThreeThatShowedNothing) {
  Machine machine("software");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(machine.trial_due()) << i;
    machine.failed_request();
  }
  EXPECT_FALSE(machine.trial_due());
  machine.now += 3590;
  EXPECT_FALSE(machine.trial_due());
  machine.now += 20;
  EXPECT_TRUE(machine.trial_due());
  machine.failed_request();
  EXPECT_FALSE(machine.trial_due()) << "one an hour";
}

Machine of_ceilings(double read_gbps, double float_gops) {
  const measure::Subject subject = measure::subject_of(gpu("software"));
  return Machine("software", {{subject, {measure::Kind::read_gbps, 0, read_gbps, kToday}},
                              {subject, {measure::Kind::float_gops, 0, float_gops, kToday}}});
}

// Short requests would never have it load the model: its load counts, and the processor's is over.
TEST(ATrial, IsDueWhereCeilingsAloneWereMeasured) {
  Machine machine = of_ceilings(10, 100);
  EXPECT_TRUE(machine.trial_due());
  machine.request(1, 0.1);
  EXPECT_FALSE(machine.trial_due());
}

TEST(ATrial, IsNotDueWhereTheModelWasMeasured) {
  using measure::Kind;
  config::ModelEntry model;
  model.id = "m";
  model.embedded = true;
  const auto subject = measure::subject_of(gpu("software"), measure::model_digest(model), model);
  Machine machine("software", {{subject, {Kind::ttft_ms, 32, 100, kToday}},
                               {subject, {Kind::ttft_ms, 512, 900, kToday}},
                               {subject, {Kind::decode_tps, 1, 10, kToday}},
                               {subject, {Kind::decode_tps, 8, 20, kToday}}});
  EXPECT_FALSE(machine.trial_due());
}

TEST(ATrial, IsNotDueAtAnEngineThatMissesTheSlo) {
  Machine machine = of_ceilings(10, 100);
  EXPECT_FALSE(machine.trial_due(1));
  EXPECT_TRUE(machine.trial_due(600'000));
}

TEST(ATrial, LoadsNoModelWhileAnotherTargetHoldsTheSlo) {
  Machine machine("software");
  machine.engines = {{"cpu", true, 1}};
  EXPECT_FALSE(machine.trial_due(6000));
  EXPECT_TRUE(machine.trial_due(1)) << "no other holds it";
  EXPECT_TRUE(machine.trial_due());
}

TEST(ATrial, WaitsForNoLongLoadWhileAnotherTargetIsLoaded) {
  Machine machine = of_ceilings(0.1, 100);  // it loads for 22 s
  EXPECT_TRUE(machine.trial_due()) << "it is loaded";
  machine.engines = {{"cpu", true, 1}};
  EXPECT_FALSE(machine.trial_due());
  machine.engines.clear();
  EXPECT_TRUE(machine.trial_due()) << "nothing is loaded";
}

TEST(ATrial, IsNotDueWhereTheModelHasNoRoom) {
  Machine machine("software");
  machine.fits = false;
  EXPECT_FALSE(machine.trial_due());
}

TEST(ATrial, IsDueWhereNothingIsPredicted) {
  Machine machine("a kind that nobody knows");
  const policy::Facts facts = machine.facts();
  EXPECT_EQ(number(facts, "backend.opencl.expected_total"), -1);
  EXPECT_THAT(picked(gpu_first("pick: fastest"), facts), HasSubstr("tried, listed before cpu"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(machine.trial_due()) << i << " requests make no model yet";
    machine.request(0.05, 0.002);
  }
  EXPECT_FALSE(machine.trial_due());
  EXPECT_GT(number(machine.facts(), "backend.opencl.expected_total"), 0);
}

TEST(ATrial, IsNothingForAHardSloThatAnotherTargetShouldHold) {
  Machine machine("software");
  machine.hard_slo = true;
  EXPECT_FALSE(machine.trial_due(60'000));
  EXPECT_TRUE(machine.trial_due(1)) << "no target is predicted to hold it";
  machine.hard_slo = false;
  EXPECT_TRUE(machine.trial_due(60'000));
}

// After a reload requests that wait ask by the book before.
TEST(ABook, ThatIsOlderDoesNotTakeTurnsWithANewerOne) {
  Machine machine = of_ceilings(10, 100);
  const Machine newer = of_ceilings(20, 200);
  Query by_old = machine.query(), by_new = machine.query();
  by_new.book = &newer.book;
  const auto old_ttft = machine.predictor.expect(by_old, "opencl", false)->ttft.p50,
             new_ttft = machine.predictor.expect(by_new, "opencl", false)->ttft.p50;
  EXPECT_LT(new_ttft, old_ttft);
  EXPECT_EQ(machine.predictor.expect(by_old, "opencl", false)->ttft.p50, new_ttft);
}

TEST(ABook, ThatDoesNotKnowTheEngineTakesAnEarlierOnesWordBack) {
  Machine machine("discrete");
  EngineModel model;
  model.set_prior(machine.book, "m", "opencl", kToday);
  EXPECT_TRUE(model.load());
  EXPECT_GT(model.load_p90(), RatioWindow::kFirstP90);
  model.set_prior(measure::Book(), "m", "opencl", kToday);
  EXPECT_FALSE(model.load());
  EXPECT_FALSE(model.knows_prefill());
  EXPECT_EQ(model.load_p90(), RatioWindow::kFirstP90);
  const EngineModel fresh;
  EXPECT_EQ(model.prefill({100, 5000, 0}), fresh.prefill({100, 5000, 0}));
}

TEST(AnAssumption, RefusesNobody) {
  Machine machine("software");
  EXPECT_EQ(machine.facts(1).get("backend.opencl.meets_slo"), nullptr) << "it is only assumed to be late";
  ASSERT_NE(machine.facts(1).get("backend.cpu.meets_slo"), nullptr);
  machine.request(1, 0.1);
  ASSERT_NE(machine.facts(1).get("backend.opencl.meets_slo"), nullptr);
  EXPECT_FALSE(machine.facts(1).is_true(*policy::find_fact("backend.opencl.meets_slo")));
}

}  // namespace
}  // namespace flyball::predict
