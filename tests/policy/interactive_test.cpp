// The fact workload.interactive: people wait for answers or not, by class, objective and SLO.
#include "policy/interactive.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "config/app_manifest.hpp"

namespace flyball::policy {
namespace {

std::optional<bool> interactive(const Facts& facts) {
  const Fact* const fact = facts.get("workload.interactive");
  return fact == nullptr ? std::nullopt : std::optional(std::get<bool>(fact->value));
}

// Without a wish for speed, and with one.
struct Waits {
  const char* kind;
  bool usually, for_speed;
};
constexpr Waits kClasses[] = {
    {"chat", true, true},           {"agent", true, true},       {"rag", true, true},
    {"completion", true, true},     {"embedding", true, true},   {"fine_tuning", true, true},
    {"summarization", false, true}, {"extraction", false, true}, {"classification", false, true},
    {"batch", false, false},
};

TEST(Interactive, FollowsTheClassAndWhatCountsMost) {
  EXPECT_EQ(std::size(kClasses), config::workload_classes().size());
  for (const Waits& row : kClasses) {
    SCOPED_TRACE(row.kind);
    const auto with = [&](const char* name, const FactValue& value) {
      Facts facts;
      facts.set("workload.class", std::string(row.kind), "manifest");
      facts.set(name, value, "manifest");
      derive(facts);
      return interactive(facts);
    };
    EXPECT_EQ(with("workload.objective", std::string("throughput")), row.usually);
    EXPECT_EQ(with("workload.objective", std::string("latency")), row.for_speed);
    EXPECT_EQ(with("app.slo.ttft", std::int64_t{800}), row.for_speed);
    EXPECT_EQ(with("app.slo.tpot", std::int64_t{80}), row.for_speed);
    EXPECT_EQ(with("app.slo.deadline", std::int64_t{28'800'000}), row.usually) << "a job may have one";
  }
}

TEST(Interactive, OfAManifestIsThatOfItsFacts) {
  for (const Waits& row : kClasses) {
    SCOPED_TRACE(row.kind);
    config::AppManifest app;
    const auto classes = config::workload_classes();
    app.workload.kind =
        static_cast<config::WorkloadClass>(std::ranges::find(classes, row.kind) - classes.begin());
    EXPECT_EQ(app.is_interactive({}), row.usually);
    EXPECT_EQ(app.is_interactive({.ttft = std::chrono::milliseconds(800)}), row.for_speed);
    EXPECT_EQ(app.is_interactive({.tpot = std::chrono::milliseconds(80)}), row.for_speed);
    EXPECT_EQ(app.is_interactive({.deadline = std::chrono::hours(8)}), row.usually);
    app.workload.objective = "latency";
    EXPECT_EQ(app.is_interactive({}), row.for_speed);
  }
}

TEST(Interactive, IsLeftAsSomebodySetIt) {
  Facts facts;
  facts.set("workload.class", std::string("chat"), "manifest");
  facts.set("workload.interactive", false, "facts file");
  derive(facts);
  EXPECT_EQ(interactive(facts), false);
  Facts unknown;
  derive(unknown);
  EXPECT_EQ(interactive(unknown), std::nullopt) << "no class is known";
}

}  // namespace
}  // namespace flyball::policy
