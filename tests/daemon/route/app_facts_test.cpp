#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "config/app_needs.hpp"
#include "daemon/route/dispatcher_impl.hpp"
#include "daemon/route/facts.hpp"
#include "policy/advice.hpp"

namespace flyball::route {
namespace {

policy::Facts facts_of(const config::AppManifest& app) {
  return gather({}, std::chrono::milliseconds(0), app, {}, {}, {});
}

template <class T>
T value(const policy::Facts& facts, const char* name) {
  return std::get<T>(facts.get(name)->value);
}

TEST(DeviceGroups, AreTheEnginesOfEachPoolButTheMachines) {
  EXPECT_TRUE(device_groups({}).empty()) << "a fleet without pools";
  fleet::MemoryStatus memory;
  memory.pools.push_back({.name = "machine"});
  EXPECT_TRUE(device_groups(memory).empty());
  memory.pools.push_back({.name = "A", .backends = {{"opencl", 1}}});
  memory.pools.push_back({.name = "B", .backends = {{"vulkan", 1}}});
  EXPECT_EQ(device_groups(memory), (predict::DeviceGroups{{"opencl"}, {"vulkan"}}));
  memory.pools.pop_back();
  memory.pools.back().backends.push_back({"vulkan", 1});
  EXPECT_EQ(device_groups(memory), (predict::DeviceGroups{{"opencl", "vulkan"}}));
}

TEST(AppFacts, WhatTheManifestLeavesOutStaysUnknown) {
  config::AppManifest app;
  app.id = "a";
  app.workload.concurrency = 3;
  app.slo.ttft = std::chrono::seconds(2);
  const policy::Facts facts = facts_of(app);
  EXPECT_EQ(value<std::string>(facts, "app.privacy"), "local_only");
  for (const char* name : {"app.privacy", "workload.class", "workload.modalities"})
    EXPECT_EQ(facts.get(name)->source, "default") << name;
  EXPECT_EQ(facts.get("workload.concurrency")->source, "manifest");
  EXPECT_EQ(value<std::int64_t>(facts, "workload.concurrency"), 3);
  EXPECT_EQ(value<std::int64_t>(facts, "app.slo.ttft"), 2000);
  EXPECT_EQ(facts.get("workload.prompt_tokens"), nullptr);
  EXPECT_EQ(facts.get("workload.fixed_critical"), nullptr);
}

// `flyball check` asks the manifest, receipts ask the facts.
TEST(AppFacts, TheSameFeaturesAreUnservedByTheManifestAndByItsFacts) {
  config::AppManifest app;
  const auto agree = [&] {
    std::set<std::string> declared;
    for (const config::Unserved& one : config::unserved(app))
      declared.insert("Flyball " + std::string(config::capability(one.feature).reason));
    const auto told = policy::unserved_features(facts_of(app));
    EXPECT_EQ(declared, std::set<std::string>(told.begin(), told.end()));
    return declared.size();
  };
  EXPECT_EQ(agree(), 0U);
  for (std::size_t i = 0; i < config::workload_classes().size(); ++i) {
    app.workload.kind = static_cast<config::WorkloadClass>(i);
    agree();
  }
  app.workload.kind = config::WorkloadClass::embedding;
  EXPECT_EQ(agree(), 1U);
  app.workload.modalities = {"text", "image", "audio"};
  app.workload.draft_model = true;
  EXPECT_EQ(agree(), 4U);
  app.workload.structured_output = true;
  EXPECT_EQ(agree(), 4U) << "engines serve it";
  app.workload.draft_model = false;
  EXPECT_EQ(agree(), 3U);
}

TEST(AppFacts, WhatTheManifestDeclaresIsNoDefault) {
  config::AppManifest app;
  app.privacy = config::kDefaultPrivacy;
  app.workload.kind = config::kDefaultClass;
  app.workload.modalities = {config::kDefaultModality};
  const policy::Facts facts = facts_of(app);
  for (const char* name : {"app.privacy", "workload.class", "workload.modalities"})
    EXPECT_EQ(facts.get(name)->source, "manifest") << name;
}

TEST(AppFacts, TheStricterOfHeaderAndManifestIsTheSlo) {
  using namespace std::chrono_literals;
  config::AppManifest app;
  app.slo.ttft = 2s;
  app.slo.tpot = 50ms;
  RequestTraits request;
  request.slo_ttft = 1500ms;
  request.slo_tpot = 60ms;
  const policy::Facts facts = gather({}, 0ms, app, {}, request, {});
  EXPECT_EQ(value<std::int64_t>(facts, "app.slo.ttft"), 1500);
  EXPECT_EQ(facts.get("app.slo.ttft")->source, "request");
  EXPECT_EQ(value<std::int64_t>(facts, "app.slo.tpot"), 50);
  EXPECT_EQ(facts.get("app.slo.tpot")->source, "manifest");
  EXPECT_EQ(wanted_slo(app, request).ttft, 1500ms);
  EXPECT_EQ(wanted_slo(app, request).tpot, 50ms);
  app.slo = {};
  EXPECT_EQ(value<std::int64_t>(gather({}, 0ms, app, {}, request, {}), "app.slo.tpot"), 60);
}

TEST(AppFacts, AWaitingRequestHasWhatIsLeftOfItsSlo) {
  using namespace std::chrono_literals;
  config::AppManifest app;
  app.slo.ttft = 2s;
  app.slo.tpot = 50ms;
  app.slo.deadline = 1s;
  RequestTraits request;
  request.waited = 1200ms;
  const policy::Facts facts = gather({}, 0ms, app, {}, request, {});
  EXPECT_EQ(value<std::int64_t>(facts, "app.slo.ttft"), 800);
  EXPECT_EQ(facts.get("app.slo.ttft")->source, "manifest, 1200 ms waited");
  EXPECT_EQ(value<std::int64_t>(facts, "app.slo.tpot"), 50);
  EXPECT_EQ(facts.get("app.slo.tpot")->source, "manifest");
  EXPECT_EQ(value<std::int64_t>(facts, "app.slo.deadline"), 0) << "it is over";
  EXPECT_EQ(wanted_slo(app, request).ttft, 2s) << "from the admission";
  EXPECT_EQ(wanted_slo(app, request).deadline, 1s);
}

// Vulkan would compute beside the work that the request did not wait for; where OpenCL died it would not.
TEST(LeftEngines, BarTheCardThatTheyComputeOn) {
  policy::Facts two_cards;
  for (const char* id : {"vulkan", "opencl"}) {
    two_cards.set("backend." + std::string(id) + ".available", true, "probe");
    two_cards.set("backend." + std::string(id) + ".shares_card", false, "probe");
  }
  policy::Facts one_card = two_cards;
  for (const char* id : {"vulkan", "opencl"})
    one_card.set("backend." + std::string(id) + ".shares_card", true, "probe");
  policy::Facts dead = one_card;
  dead.set("backend.opencl.available", false, "supervisor");
  const std::vector<std::string> left{"opencl"};
  const auto vulkan_stays = [&](policy::Facts facts) {
    bar_left(left, facts);
    EXPECT_FALSE(value<bool>(facts, "backend.opencl.available"));
    return value<bool>(facts, "backend.vulkan.available");
  };
  EXPECT_TRUE(vulkan_stays(two_cards));
  EXPECT_FALSE(vulkan_stays(one_card));
  EXPECT_TRUE(vulkan_stays(dead));
}

}  // namespace
}  // namespace flyball::route
