// Which engines are loaded although the request at hand goes elsewhere, and how often.
#include "daemon/route/background_load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

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
  // As if vulkan had loaded the model, with this fact.
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

TEST_F(ColdEngines, GainWhereTheyWouldHaveBeenTried) {
  EXPECT_EQ(gain("trial_due", true), "would have been tried");
}

TEST_F(ColdEngines, TheFactsSayThatOneLoads) {
  EXPECT_EQ(background_load_text(facts), "");
  policy::Facts explained = facts;
  set_background_load({"vulkan", "would have met the SLO", true}, facts);
  EXPECT_EQ(background_load_text(facts), "vulkan: loading in the background, would have met the SLO");
  EXPECT_THAT(cold(), ElementsAre("vulkan", "opencl")) << "the value is the same";
  set_background_load({"opencl", "would have been faster"}, explained);
  EXPECT_EQ(background_load_text(explained),
            "opencl: would be loaded in the background, would have been faster");
}

struct Pace : ::testing::Test {
  BackgroundPace pace;
  TimePoint now{1h};
};

TEST_F(Pace, OneLoadsAtATime) {
  EXPECT_TRUE(pace.may_search("m", now));
  pace.begin("m", "vulkan", now);
  EXPECT_FALSE(pace.may_search("m", now += 1min));
  EXPECT_FALSE(pace.may_search("other", now));
  pace.end();
  EXPECT_TRUE(pace.may_search("m", now));
}

TEST_F(Pace, AModelIsSearchedForOnceASecond) {
  EXPECT_TRUE(pace.may_search("m", now));
  EXPECT_FALSE(pace.may_search("m", now + 999ms));
  EXPECT_TRUE(pace.may_search("other", now + 999ms)) << "each model has its own searches";
  EXPECT_TRUE(pace.may_search("m", now + 1s));
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
