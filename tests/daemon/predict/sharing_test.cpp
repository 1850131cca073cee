// Engines that compute on the same cores or GPUs: who shares with whom, and how much slower that makes them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/predict/predictor.hpp"
#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::predict {
namespace {

constexpr double kTtft = 0.3, kTpot = 0.02;  // seconds, of an engine alone
constexpr std::uint32_t kTokens = 100, kOutput = 30;

// Loaded engines of one model, and an app that asks them.
struct SeenEngines {
  Predictor predictor;
  std::vector<EngineState> engines;
  policy::Facts facts;
  double now = 100;

  SeenEngines(const DeviceGroups& devices, std::vector<EngineState> loaded, policy::Facts machine)
      : predictor(KeyedHash(1, 2), devices), engines(std::move(loaded)), facts(std::move(machine)) {
    for (const EngineState& engine : engines)
      facts.set("backend." + std::string(engine.backend) + ".available", true, "probe");
  }
  Query query() {
    Query out;
    out.app = "chat";
    out.model = "m";
    out.prompt = std::make_shared<const PromptPrint>(PromptPrint{.bytes = 5 * kTokens, .tokens = kTokens});
    out.slots = 4;
    out.engines = engines;
    out.now = at(now);
    out.asks_delay_to_others = true;
    return out;
  }
  Predictor::Place at_work(std::string_view backend) {
    auto place = predictor.enter({query(), backend, facts});
    place.began(at(now));
    return place;
  }
  void answer(std::string_view backend, double ttft, double tpot = kTpot) {
    now += 1;
    auto place = at_work(backend);
    place.received({"t", {1}, {}, kTokens, 0}, at(now += ttft));
    const double decode = (kOutput - 1) * tpot;
    place.finished({kTokens, kOutput, 0}, {0, 0, static_cast<std::uint64_t>(decode * 1e6)},
                   at(now += decode));
  }
  // The facts that predict() sets: that has to know who shares. In seconds; 0: not known.
  double ttft(const std::string& backend) { return seconds(backend, "expected_ttft"); }
  double delay_to_others(const std::string& backend) { return seconds(backend, "expected_delay_to_others"); }
  double seconds(const std::string& backend, const std::string& time) {
    policy::Facts told = facts;
    predictor.predict(query(), told);
    const policy::Fact* const fact = told.get("backend." + backend + "." + time);
    return fact == nullptr ? 0 : static_cast<double>(std::get<std::int64_t>(fact->value)) / 1e6;
  }
};

// Engines of three kinds, each seen at work alone.
struct ThreeEngines : SeenEngines {
  explicit ThreeEngines(const DeviceGroups& devices)
      : SeenEngines(devices, {{"cpu", true, 1}, {"vulkan", true, 2}, {"opencl", true, 3}}, machine()) {
    for (const EngineState& engine : engines)
      for (int i = 0; i < 5; ++i) slow_answer(engine.backend, 1);
  }
  // So many times as slow as alone.
  void slow_answer(std::string_view backend, double slower) {
    answer(backend, kTtft * slower, kTpot * slower);
  }
  // How many times as long `backend` takes while `other` is at work.
  double slowed(const std::string& backend, const std::string& other) {
    const double alone = ttft(backend);
    const auto place = at_work(other);
    return ttft(backend) / alone;
  }
};

// Answers of cpu while vulkan is at work on the same cores, so many times as slow as alone.
void answer_beside(ThreeEngines& engines, double slower, int answers) {
  const auto other = engines.at_work("vulkan");
  for (int i = 0; i < answers; ++i) engines.slow_answer("cpu", slower);
}

TEST(SharedCores, SlowAsMuchAsWasSeen) {
  for (const double slower : {1.0, 1.3, 2.0, 3.5}) {
    ThreeEngines engines({});
    const double alone = engines.ttft("cpu");
    answer_beside(engines, slower, 8);
    EXPECT_NEAR(engines.slowed("cpu", "vulkan"), slower, 0.15 * slower);
    EXPECT_NEAR(engines.ttft("cpu"), alone, 0.1 * alone) << "alone it is as fast as before";
  }
}

TEST(SharedCores, OneSlowAnswerIsNotBelieved) {
  ThreeEngines engines({});
  answer_beside(engines, 1.3, 8);
  answer_beside(engines, 6, 1);
  EXPECT_NEAR(engines.slowed("cpu", "vulkan"), 1.3, 0.2);
}

TEST(SharedCores, ForgetHowMuchItWas) {
  ThreeEngines engines({});
  answer_beside(engines, 1.2, 20);
  for (int i = 0; i < 10; ++i) {
    engines.slow_answer("cpu", 1);
    answer_beside(engines, 2, 2);
  }
  EXPECT_NEAR(engines.slowed("cpu", "vulkan"), 2, 0.3);
}

TEST(SharedCores, ThreeEnginesAddMoreThanTwo) {
  ThreeEngines engines({});
  answer_beside(engines, 1.4, 10);
  const auto third = engines.at_work("opencl");
  EXPECT_NEAR(engines.slowed("cpu", "vulkan"), 1.8 / 1.4, 0.1);
}

TEST(SharedCores, NothingIsLearnedWithoutATimeAlone) {
  EngineModel model;
  for (int i = 0; i < 20; ++i) model.shared({}, 0.1, 2);
  EXPECT_DOUBLE_EQ(model.slowdown(2), 2);
  EXPECT_DOUBLE_EQ(model.slowdown(1), 1);
  EXPECT_DOUBLE_EQ(model.slowdown(0), 1);
}

struct Shares {
  const char* name;
  DeviceGroups devices;
  bool cpu_vulkan, cpu_opencl, vulkan_opencl;
};
void PrintTo(const Shares& one, std::ostream* out) {
  *out << one.name;
}
class WhoShares : public ::testing::TestWithParam<Shares> {};

TEST_P(WhoShares, IsSlowedByTheOther) {
  ThreeEngines engines(GetParam().devices);
  const auto times = [](bool shares) { return shares ? 2.0 : 1.0; };
  EXPECT_NEAR(engines.slowed("cpu", "vulkan"), times(GetParam().cpu_vulkan), 0.01);
  EXPECT_NEAR(engines.slowed("vulkan", "cpu"), times(GetParam().cpu_vulkan), 0.01);
  EXPECT_NEAR(engines.slowed("cpu", "opencl"), times(GetParam().cpu_opencl), 0.01);
  EXPECT_NEAR(engines.slowed("opencl", "vulkan"), times(GetParam().vulkan_opencl), 0.01);
  EXPECT_NEAR(engines.slowed("vulkan", "opencl"), times(GetParam().vulkan_opencl), 0.01);
}
INSTANTIATE_TEST_SUITE_P(
    Machines, WhoShares,
    ::testing::Values(Shares{"IntegratedOrSoftwareDevices", {}, true, true, true},
                      Shares{"OneDiscreteGpu", {{"vulkan", "opencl"}}, false, false, true},
                      Shares{"TwoDiscreteGpus", {{"vulkan"}, {"opencl"}}, false, false, false},
                      Shares{"DiscreteGpuBesideAnIntegratedOne", {{"opencl"}}, true, false, false}),
    [](const auto& row) { return std::string(row.param.name); });

// ---- engines of their own ---------------------------------------------------------------------------------

// The shared cpu engine, and engines of a profile's own.
struct CpuAndOwn : SeenEngines {
  explicit CpuAndOwn(bool yields = false)
      : SeenEngines({{"opencl"}}, {{"cpu", true, 1}, {"cpu:night", true, 2}, {"opencl:night", true, 3}},
                    policy::Facts(policy::TargetCatalogue::with_own_engines(
                        policy::default_targets(),
                        std::vector<policy::TargetCatalogue::OwnEngine>{
                            {"cpu", "night", {.threads = 1U, .yields = yields}}, {"opencl", "night", {}}}))) {
  }
};

TEST(OwnEngine, LearnsItsOwnTimes) {
  CpuAndOwn engines;
  for (int i = 0; i < 5; ++i) engines.answer("cpu", 0.3);
  EXPECT_EQ(engines.ttft("cpu:night"), 0) << "nobody has seen it";
  for (int i = 0; i < 5; ++i) engines.answer("cpu:night", 1.2);
  EXPECT_NEAR(engines.ttft("cpu"), 0.3, 0.05);
  EXPECT_NEAR(engines.ttft("cpu:night"), 1.2, 0.2);
}

TEST(OwnEngine, ComputesOnTheCoresOrCardsOfItsKind) {
  CpuAndOwn engines;
  for (int i = 0; i < 5; ++i)
    for (const char* backend : {"cpu", "cpu:night", "opencl:night"}) engines.answer(backend, 0.3);
  const double alone = engines.ttft("cpu"), on_card = engines.ttft("opencl:night");
  {
    const auto own = engines.at_work("cpu:night");
    EXPECT_GT(engines.ttft("cpu"), 1.5 * alone) << "one group";
    EXPECT_NEAR(engines.ttft("opencl:night"), on_card, 0.05 * on_card) << "a card of its own";
  }
  const auto own = engines.at_work("opencl:night");
  EXPECT_NEAR(engines.ttft("cpu"), alone, 0.05 * alone);
}

TEST(OwnEngine, ThatYieldsWaitsForPeopleAndSlowsNobody) {
  CpuAndOwn engines(/*yields=*/true);
  for (int i = 0; i < 5; ++i)
    for (const char* backend : {"cpu", "cpu:night"}) engines.answer(backend, 0.3);
  const double alone = engines.ttft("cpu"), own_alone = engines.ttft("cpu:night");
  {
    const auto own = engines.at_work("cpu:night");
    EXPECT_NEAR(engines.ttft("cpu"), alone, 0.05 * alone);
  }
  const auto people = engines.at_work("cpu");
  EXPECT_GT(engines.ttft("cpu:night"), own_alone + (kOutput - 1) * kTpot / 2)
      << "until that answer has ended";
  EXPECT_EQ(engines.delay_to_others("cpu:night"), 0);
}

}  // namespace
}  // namespace flyball::predict
