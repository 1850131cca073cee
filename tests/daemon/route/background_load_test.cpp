// Which engines are loaded although the request at hand goes elsewhere, and how often.
#include "daemon/route/background_load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/daemon/api/fakes.hpp"

namespace flyball::route {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// A loaded processor that holds the SLO, and GPUs that are not loaded, listed before it.
struct ColdEngines : ::testing::Test {
  policy::Facts facts = testing::make_hardware(true);
  std::shared_ptr<const policy::Tree> tree =
      testing::tree_of("default: {because: b, use: [vulkan, opencl, cpu], pick: meets_slo}\n");

  ColdEngines() {
    for (const char* gpu : {"vulkan", "opencl"}) {
      set(gpu, "available", true);
      set(gpu, "loaded", false);
      set(gpu, "fits_now", true);
      set(gpu, "meets_slo", false);
    }
    set("cpu", "loaded", true);
    set("cpu", "meets_slo", true);
  }
  void set(const std::string& engine, const char* fact, policy::FactValue value) {
    facts.set("backend." + engine + "." + fact, std::move(value), "test");
  }
  std::vector<std::string> cold() const { return cold_engines(policy::decide(*tree, facts), facts); }
  // The gain if vulkan had loaded the model, with this fact.
  std::optional<std::string> gain(const char* fact, policy::FactValue value) const {
    policy::Facts loaded = facts;
    loaded.set("backend.vulkan.loaded", true, "test");
    loaded.set(std::string("backend.vulkan.") + fact, std::move(value), "test");
    return gain_if_loaded(*tree, "vulkan", loaded);
  }
};

TEST_F(ColdEngines, AreThoseOfThePathThatCouldLoadTheModelNow) {
  EXPECT_THAT(cold(), ElementsAre("vulkan", "opencl"));
  set("vulkan", "fits_now", false);
  EXPECT_THAT(cold(), ElementsAre("opencl"));
  set("opencl", "available", false);
  EXPECT_THAT(cold(), IsEmpty());
}

TEST_F(ColdEngines, LeaveOutWhatIsLoadedOrNotKnownToFit) {
  set("vulkan", "loaded", true);
  facts.forget(*policy::find_fact("backend.opencl.fits_now"));
  EXPECT_THAT(cold(), IsEmpty());
}

TEST_F(ColdEngines, IncludeOneThatWasNeverStarted) {
  facts.forget(*policy::find_fact("backend.vulkan.loaded"));
  EXPECT_THAT(cold(), ElementsAre("vulkan", "opencl"));
}

TEST_F(ColdEngines, WaitForTheLoadOfTheChosenEngine) {
  set("cpu", "loaded", false);
  EXPECT_THAT(cold(), IsEmpty());
}

TEST_F(ColdEngines, OfARequestThatGoesNowhereAreNone) {
  tree = testing::tree_of("default: {because: b, use: vllm}\n");
  EXPECT_THAT(cold(), IsEmpty());
}

TEST_F(ColdEngines, OfARuleThatTheRequestPassedForItsSloCountToo) {
  tree = testing::tree_of(R"(rules:
  - {id: gpu, because: b, use: vulkan, pick: meets_slo, on_slo_miss: next}
default: {because: b, use: cpu}
)");
  EXPECT_THAT(cold(), ElementsAre("vulkan"));
  EXPECT_EQ(gain("meets_slo", true), "would have met the SLO");
}

TEST_F(ColdEngines, GainWhereTheyWouldHaveMetTheSlo) {
  EXPECT_EQ(gain("meets_slo", true), "would have met the SLO");
  EXPECT_EQ(gain("meets_slo", false), std::nullopt);
}

TEST_F(ColdEngines, ListedBehindTheChosenOneGainNothing) {
  tree = testing::tree_of("default: {because: b, use: [cpu, vulkan], pick: meets_slo}\n");
  EXPECT_EQ(gain("meets_slo", true), std::nullopt);
}

TEST_F(ColdEngines, GainWhereTheyWouldHaveBeenFaster) {
  tree = testing::tree_of("default: {because: b, use: [vulkan, cpu], pick: fastest}\n");
  set("cpu", "expected_total", std::int64_t{2'000'000});
  EXPECT_EQ(gain("expected_total", std::int64_t{900'000}), "would have been faster");
  EXPECT_EQ(gain("expected_total", std::int64_t{3'000'000}), std::nullopt);
}

TEST_F(ColdEngines, GainWhereTheyWouldHaveBeenTriedUnlessAnotherHoldsTheSlo) {
  tree = testing::tree_of("default: {because: b, use: [vulkan, cpu], pick: fastest}\n");
  set("cpu", "expected_total", std::int64_t{2'000'000});
  EXPECT_EQ(gain("trial_due", true), std::nullopt) << "cpu holds it";
  set("cpu", "meets_slo", false);
  EXPECT_EQ(gain("trial_due", true), "would have been tried");
}

TEST(BackgroundLoadText, TellsALoadThatBeginsFromAnExplainedOne) {
  const BackgroundLoad load{"vulkan", "would have met the SLO"};
  EXPECT_EQ(background_load_text(load, true), "vulkan: loading in the background, would have met the SLO");
  EXPECT_EQ(background_load_text(load, false),
            "vulkan: would be loaded in the background, would have met the SLO");
}

TEST(BackgroundLoadOf, AnEngineThatStandsStill) {
  config::ModelEntry model;
  model.id = "m";
  std::vector<fleet::WorkerStatus> workers(1);
  fleet::WorkerStatus& vulkan = workers[0];
  vulkan.model = "m";
  vulkan.backend = "vulkan";
  EXPECT_TRUE(stands_still(workers, model, "vulkan"));
  vulkan.unloaded = true;
  EXPECT_FALSE(stands_still(workers, model, "vulkan"));
  vulkan.unloaded = false;
  vulkan.invalid = true;
  EXPECT_FALSE(stands_still(workers, model, "vulkan"));
  vulkan.invalid = false;
  vulkan.state = fleet::WorkerState::backoff;
  EXPECT_FALSE(stands_still(workers, model, "vulkan"));
  EXPECT_TRUE(stands_still(workers, model, "opencl"));
  workers.emplace_back();
  workers[1].model = "other";
  workers[1].backend = "vulkan";
  workers[1].spare = true;
  EXPECT_FALSE(stands_still(workers, model, "opencl"))
      << "an unused engine counts as free memory, and is not";
}

TEST(BackgroundLoadOf, NoModelWhileAnotherOfItsGroupIsThere) {
  config::ModelEntry model;
  model.id = "m";
  model.group = "g";
  std::vector<fleet::WorkerStatus> workers(1);
  fleet::WorkerStatus& mate = workers[0];
  mate.model = "mate";
  mate.backend = "cpu";
  mate.group = "g";
  EXPECT_TRUE(stands_still(workers, model, "vulkan")) << "it is not loaded";
  mate.pid = 7;
  EXPECT_FALSE(stands_still(workers, model, "vulkan"));
  mate.group = "";
  model.group = "";
  EXPECT_TRUE(stands_still(workers, model, "vulkan"));
}

struct Pace : ::testing::Test {
  BackgroundPace pace;
  TimePoint now{1h};
};

TEST_F(Pace, OneLoadsAtATime) {
  EXPECT_TRUE(pace.may_begin("m", "vulkan", now));
  pace.begin("m", "vulkan", now);
  EXPECT_FALSE(pace.may_search("alice", "other", now += 1min));
  EXPECT_FALSE(pace.may_begin("other", "vulkan", now)) << "a load that was found before that one began";
  pace.end();
  EXPECT_TRUE(pace.may_search("alice", "other", now));
  EXPECT_TRUE(pace.may_begin("other", "vulkan", now));
}

TEST_F(Pace, EachAppSearchesForAModelOnceASecond) {
  EXPECT_TRUE(pace.may_search("alice", "m", now));
  EXPECT_TRUE(pace.may_search("alice", "m", now)) << "it found nothing to search for";
  pace.searched("alice", "m", now);
  EXPECT_FALSE(pace.may_search("alice", "m", now + 999ms));
  EXPECT_TRUE(pace.may_search("alice", "other", now + 999ms)) << "each model has its own searches";
  EXPECT_TRUE(pace.may_search("bob", "m", now + 999ms)) << "and each app";
  EXPECT_TRUE(pace.may_search("alice", "m", now + 1s));
}

TEST_F(Pace, SearchesOfAllAppsAreBounded) {
  for (std::size_t i = 0; i < BackgroundPace::kMostSearches; ++i) {
    EXPECT_TRUE(pace.may_search("bob", "m", now));
    pace.searched("app" + std::to_string(i), "m", now);
  }
  EXPECT_FALSE(pace.may_search("bob", "m", now));
  EXPECT_TRUE(pace.may_search("bob", "m", now + 1s));
}

TEST_F(Pace, AnEngineRestsBetweenTwoBackgroundLoads) {
  EXPECT_TRUE(pace.rested("m", "vulkan", now));
  pace.begin("m", "vulkan", now);
  pace.end();
  EXPECT_FALSE(pace.rested("m", "vulkan", now + BackgroundPace::kRest - 1s));
  EXPECT_TRUE(pace.rested("m", "vulkan", now + BackgroundPace::kRest));
  EXPECT_TRUE(pace.rested("m", "opencl", now));
  EXPECT_TRUE(pace.rested("other", "vulkan", now));
}

TEST_F(Pace, LoadsThatServeNobodyBecomeRare) {
  int loads = 0;
  for (const TimePoint end = now + 24h; now < end; now += 1min)
    if (pace.rested("m", "vulkan", now)) {
      pace.begin("m", "vulkan", now);
      pace.end();
      ++loads;
    }
  EXPECT_EQ(loads, 8) << "after 10, 20, 40, ... minutes";
  EXPECT_TRUE(pace.rested("m", "vulkan", now + BackgroundPace::kMostRest));
}

TEST_F(Pace, ALoadThatServedARequestIsRepeatedAfterTheShortestRest) {
  for (int i = 0; i < 5; ++i) {
    pace.begin("m", "vulkan", now);
    pace.end();
    pace.served("m", "vulkan");
    EXPECT_FALSE(pace.rested("m", "vulkan", now));
    EXPECT_TRUE(pace.rested("m", "vulkan", now += BackgroundPace::kRest));
  }
}

}  // namespace
}  // namespace flyball::route
