// Profiles of a policy file: what they set, what targets may name, and what is wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "policy/graph.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using config::QueuePlace;
using config::RequestSettings;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const kProfiles = R"(profiles:
  latency: {because: a person waits, step_budget: 20ms, place: ahead}
  night: {because: nobody waits, step_budget: 2s, place: behind}
  plain: {because: a name alone, place: usual}
)";

Result<Tree> policy_of(const std::string& text) {
  return parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml");
}
const std::string kUse =
    "default: {because: b, use: [\"cpu:latency\", \"cpu:night\", \"cpu:plain\", \"cpu:throughput\", cpu]}\n";

TEST(Profiles, SetWhatTheFileSays) {
  const auto tree = policy_of(kProfiles + kUse);
  ASSERT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  ASSERT_EQ(tree->profiles.size(), 3U);
  EXPECT_EQ(tree->profiles[1].because, "nobody waits");
  EXPECT_EQ(tree->profiles[1].line, 4U);
  EXPECT_EQ(tree->profiles[1].column, 3U);
  const auto& use = tree->fallback.use;
  ASSERT_NE(settings_of(*tree, use[0]), nullptr);
  EXPECT_EQ(*settings_of(*tree, use[0]), (RequestSettings{milliseconds(20), QueuePlace::ahead}));
  ASSERT_NE(settings_of(*tree, use[1]), nullptr);
  EXPECT_EQ(*settings_of(*tree, use[1]), (RequestSettings{milliseconds(2000), QueuePlace::behind}));
  for (const std::size_t nothing : {2U, 3U, 4U})
    EXPECT_EQ(settings_of(*tree, use[nothing]), nullptr) << to_string(use[nothing]);
}

TEST(Profiles, WithoutThemNothingIsSet) {
  const auto tree = policy_of("default: {because: b, use: [\"cpu:latency\", \"cpu:throughput\", cpu]}\n");
  ASSERT_TRUE(tree);
  EXPECT_THAT(tree->profiles, IsEmpty());
  for (const Target& target : tree->fallback.use) EXPECT_EQ(settings_of(*tree, target), nullptr);
}

TEST(Profiles, OfTheShippedPolicyAct) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  const auto* background = settings_of(*tree, Target{"cpu", "background"});
  ASSERT_TRUE(background);
  EXPECT_EQ(background->place, QueuePlace::behind);
  EXPECT_FALSE(background->step_budget);
}

TEST(Profiles, InWords) {
  const auto tree = policy_of(kProfiles + kUse);
  ASSERT_TRUE(tree);
  EXPECT_EQ(to_text(tree->profiles[0].settings), "step budget 20ms, place ahead");
  EXPECT_EQ(to_text(tree->profiles[1].settings), "step budget 2s, place behind");
  EXPECT_EQ(to_text(tree->profiles[2].settings), "nothing");
  const std::string dot = to_dot(*tree, {}), svg = to_svg(*tree, {});
  EXPECT_THAT(dot, HasSubstr("[label=\"cpu:latency\\nstep budget 20ms, place ahead\", shape=ellipse]"));
  EXPECT_THAT(dot, HasSubstr("[label=\"cpu:throughput\", shape=ellipse]"));
  EXPECT_THAT(svg, HasSubstr(">profile night</text>"));
  EXPECT_THAT(svg, HasSubstr(">step budget 20ms, place ahead</text>"));
}

TEST(Profiles, OneThatNoTargetNamesIsAWarning) {
  const auto tree = policy_of(std::string(kProfiles) + "default: {because: b, use: [\"cpu:night\", cpu]}\n");
  ASSERT_TRUE(tree);
  std::vector<std::string> found;
  for (const LintFinding& finding : lint(*tree)) found.push_back(finding.where + " " + finding.message);
  EXPECT_THAT(found, ElementsAre("p.yaml:3:3 profile \"latency\" is used by no target",
                                 "p.yaml:5:3 profile \"plain\" is used by no target"));
}

struct WrongProfile {
  const char* name;
  std::string text;
  const char* message;
  const char* where;
};
void PrintTo(const WrongProfile& one, std::ostream* out) {
  *out << one.name;
}
class WrongProfiles : public testing::TestWithParam<WrongProfile> {};

TEST_P(WrongProfiles, AreNamedWithTheirPlace) {
  const auto tree = policy_of(GetParam().text);
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(tree.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(tree.error().where, GetParam().where);
}

std::string profile(const std::string& keys) {
  return "profiles:\n  p: {" + keys + "}\ndefault: {because: b, use: \"cpu:p\"}\n";
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongProfiles,
    testing::Values(
        WrongProfile{"no_because", profile("place: ahead"), "profiles.p: missing key \"because\"",
                     "p.yaml:3:6"},
        WrongProfile{"unknown_key", profile("because: b, places: ahead"), "did you mean \"place\"?",
                     "p.yaml:3:19"},
        WrongProfile{"removed_chunk", profile("because: b, chunk: 128"),
                     "profiles.p: \"chunk\" was removed; use step_budget", "p.yaml:3:19"},
        WrongProfile{"removed_slot_share", profile("because: b, slot_share: 50"),
                     "profiles.p: \"slot_share\" was removed; use limits.in_flight in the app's manifest",
                     "p.yaml:3:19"},
        WrongProfile{"no_budget", profile("because: b, step_budget: 0ms"), "1ms to 10s", "p.yaml:3:32"},
        WrongProfile{"large_budget", profile("because: b, step_budget: 11s"), "1ms to 10s", "p.yaml:3:32"},
        WrongProfile{"budget_without_unit", profile("because: b, step_budget: 20"), "duration",
                     "p.yaml:3:32"},
        WrongProfile{"unknown_place", profile("because: b, place: first"), "expected ahead, usual or behind",
                     "p.yaml:3:26"},
        WrongProfile{"none", "profiles: {}\ndefault: {because: b, use: cpu}\n", "at least 1", "p.yaml:2:11"},
        WrongProfile{"id_that_no_target_can_carry",
                     "profiles: {a.b: {because: b}}\ndefault: {because: b, use: cpu}\n",
                     "profile \"a.b\": expected letters, digits, - and _", "p.yaml:2:12"},
        WrongProfile{"undefined", std::string(kProfiles) + "default: {because: b, use: \"cpu:nigth\"}\n",
                     "unknown profile \"nigth\", expected latency, night, plain or throughput; did you mean "
                     "\"night\"?",
                     "p.yaml:6:28"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Profiles, StandInTheSchema) {
  const auto schema = nlohmann::json::parse(policy_schema());
  const auto& one = schema["properties"]["profiles"]["additionalProperties"]["properties"];
  EXPECT_TRUE(one.contains("step_budget"));
  EXPECT_FALSE(one.contains("chunk")) << "it was removed";
  EXPECT_EQ(one["place"]["enum"], (nlohmann::json{"ahead", "usual", "behind"}));
}

}  // namespace
}  // namespace flyball::policy
