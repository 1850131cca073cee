// Targets as instances: a catalogue with upstreams of several kinds, and everything that looks names up in
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/engine_kinds.hpp"
#include "policy/advice.hpp"
#include "policy/decide.hpp"
#include "policy/fact_json.hpp"
#include "policy/fact_text.hpp"
#include "policy/graph.hpp"
#include "policy/reach.hpp"
#include "policy/scenario.hpp"
#include "policy/why_not.hpp"

namespace flyball::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two machines that serve by vLLM, one by a kind that v1 does not know.
Targets racks() {
  return TargetCatalogue::make({{"rack2", "vllm"}, {"rack1", "vllm"}, {"box", "llama_server"}}).value();
}

Tree tree_with(const std::string& text, const Targets& targets = racks()) {
  auto tree = parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml", targets);
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}

std::string mistake_of(const std::string& text, const Targets& targets = racks()) {
  const auto tree = parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml", targets);
  return tree ? "" : tree.error().message;
}

constexpr const char* kCpuElse = "default: {because: b, use: cpu}\n";

Facts facts_with(const Targets& targets, std::initializer_list<const char*> ids) {
  Facts facts(targets);
  for (const TargetInstance& target : targets->instances())
    facts.set(fact_of(target, TargetFact::available),
              std::ranges::any_of(ids, [&](const char* id) { return target.id == id; }), "test");
  return facts;
}

std::vector<std::string> ids_of(const std::vector<const TargetInstance*>& targets) {
  std::vector<std::string> out;
  for (const TargetInstance* target : targets) out.push_back(target->id);
  return out;
}

TEST(Targets, V1NamesAreKnownWithoutAConfiguration) {
  EXPECT_THAT(default_targets()->names(),
              ElementsAre("cpu", "vulkan", "opencl", "vllm", "sglang", "tensorrt_llm", "dynamo"));
  for (const TargetInstance& target : default_targets()->instances()) {
    EXPECT_EQ(target.remote, config::find_engine_kind(target.kind) == nullptr) << target.id;
    EXPECT_EQ(target.configured, !target.remote) << target.id;
  }
}

TEST(Targets, UpstreamsReplaceTheirKindAndKeepTheConfigurationsOrder) {
  const Targets targets = racks();
  EXPECT_THAT(targets->names(), ElementsAre("cpu", "vulkan", "opencl", "rack2", "rack1", "box", "sglang",
                                            "tensorrt_llm", "dynamo", "vllm", "llama_server"));
  EXPECT_EQ(targets->find("vllm"), nullptr) << "a kind whose upstreams have other ids is none of them";
  EXPECT_THAT(ids_of(targets->meant_by("vllm")), ElementsAre("rack2", "rack1"));
  EXPECT_THAT(ids_of(targets->meant_by("rack1")), ElementsAre("rack1"));
  EXPECT_THAT(ids_of(targets->meant_by(kRemote)),
              ElementsAre("rack2", "rack1", "box", "sglang", "tensorrt_llm", "dynamo"));
  EXPECT_TRUE(targets->meant_by("rack3").empty());
  EXPECT_TRUE(targets->is_remote("box"));
  EXPECT_FALSE(targets->is_remote("opencl"));
}

TEST(Targets, AnUpstreamMayHaveTheNameOfItsKindWhileItIsAlone) {
  const Targets targets = TargetCatalogue::make({{"vllm", "vllm"}}).value();
  EXPECT_TRUE(targets->same_as(*targets));
  EXPECT_TRUE(targets->find("vllm")->configured);
  EXPECT_TRUE(targets->derived_kinds().empty());
}

struct WrongUpstream {
  const char* name;
  std::vector<TargetInstance> upstreams;
  const char* says;
};
void PrintTo(const WrongUpstream& mistake, std::ostream* out) {
  *out << mistake.name;
}
class WrongUpstreams : public testing::TestWithParam<WrongUpstream> {};

TEST_P(WrongUpstreams, AreRefused) {
  const auto made = TargetCatalogue::make(GetParam().upstreams);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(made.error().message, HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    Targets, WrongUpstreams,
    testing::Values(
        WrongUpstream{"no_id", {{"", "vllm"}}, "an upstream's id is 1 to 48 letters"},
        WrongUpstream{"dotted_id", {{"rack.1", "vllm"}}, "got \"rack.1\""},
        WrongUpstream{"long_id", {{std::string(49, 'a'), "vllm"}}, "1 to 48"},
        WrongUpstream{"same_id", {{"a", "vllm"}, {"a", "sglang"}}, "two upstreams are called \"a\""},
        WrongUpstream{"an_engine", {{"cpu", "vllm"}}, "has the name of another kind"},
        WrongUpstream{"of_an_engine_kind", {{"a", "opencl"}}, "\"opencl\" is no kind of upstream"},
        WrongUpstream{"another_kind", {{"sglang", "vllm"}}, "has the name of another kind"},
        WrongUpstream{"reserved", {{"remote", "vllm"}}, "stands for something else"},
        WrongUpstream{
            "kind_of_a_neighbour", {{"b", "a"}, {"a", "vllm"}}, "has the name of the kind of \"b\""},
        WrongUpstream{"not_alone", {{"vllm", "vllm"}, {"rack1", "vllm"}}, "give it a name of its own"},
        WrongUpstream{"too_many", std::vector<TargetInstance>(257, {"a", "vllm"}), "the limit is 256"}),
    [](const auto& test) { return test.param.name; });

TEST(Targets, FactsOfEveryCatalogueHaveTheSameIds) {
  const Targets targets = racks();
  const auto common = default_targets()->facts(), facts = targets->facts();
  ASSERT_EQ(facts.size(), common.size() + 4 * kTargetFacts);  // three instances and a kind
  for (std::size_t i = 0; i < facts.size(); ++i) {
    EXPECT_EQ(targets->find_fact(facts[i].name), i) << facts[i].name;
    if (i < common.size()) {
      EXPECT_EQ(facts[i].name, common[i].name);
      EXPECT_EQ(find_fact(facts[i].name), i);
    }
  }
  EXPECT_EQ(default_targets()->find_fact("backend.rack1.ttft"), std::nullopt);
  EXPECT_EQ(targets->find_fact("backend.rack1.ttft"), targets->fact_of("rack1", TargetFact::ttft));
  EXPECT_EQ(facts[targets->fact_of("llama_server", TargetFact::queue_waiting)].name,
            "backend.llama_server.queue_waiting");
}

TEST(Targets, FactsOfAnInstanceAreSetAndReadByName) {
  Facts facts(racks());
  ASSERT_TRUE(set_fact("backend.rack1.queue_waiting=3", "test", facts));
  EXPECT_EQ(facts.get("backend.rack1.queue_waiting")->value, FactValue(std::int64_t{3}));
  const auto wrong = set_fact("backend.rack9.queue_waiting=3", "test", facts);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("did you mean \"backend.rack1.queue_waiting\"?"));
  EXPECT_TRUE(read_fact("backend.box.available", true, *facts.targets()));
  EXPECT_FALSE(read_fact("backend.box.available", true, *default_targets()));
}

TEST(Targets, AKindsFactsAreThoseOfItsFirstAvailableUpstream) {
  Facts facts = facts_with(racks(), {"rack1"});
  facts.set("backend.rack2.queue_waiting", std::int64_t{1}, "test", std::chrono::milliseconds(5));
  facts.set("backend.rack1.queue_waiting", std::int64_t{2}, "test", std::chrono::milliseconds(7));
  derive(facts);
  const Fact* waiting = facts.get("backend.vllm.queue_waiting");
  ASSERT_NE(waiting, nullptr);
  EXPECT_EQ(waiting->value, FactValue(std::int64_t{2}));
  EXPECT_EQ(waiting->age.count(), 7);
  EXPECT_THAT(waiting->from, ElementsAre(*facts.targets()->find_fact("backend.rack1.queue_waiting")));
  EXPECT_EQ(facts.get("backend.vllm.available")->value, FactValue(true));

  forget_derived(facts);
  EXPECT_EQ(facts.get("backend.vllm.queue_waiting"), nullptr);
  facts.set("backend.rack1.available", false, "test");
  facts.set("backend.rack2.reason", std::string("it refuses"), "test");
  derive(facts);
  EXPECT_EQ(facts.get("backend.vllm.available")->value, FactValue(false));
  EXPECT_EQ(facts.get("backend.vllm.queue_waiting")->value, FactValue(std::int64_t{1}))
      << "the first stands for all";
  EXPECT_EQ(facts.get("backend.vllm.reason")->value, FactValue(std::string("it refuses")));
}

TEST(Targets, AKindsNameMeansItsFirstAvailableInstance) {
  const Tree tree =
      tree_with("rules: [{id: far, because: b, use: \"vllm:latency\"}]\n" + std::string(kCpuElse));
  ASSERT_EQ(tree.rules[0].use.size(), 2U);
  EXPECT_EQ(to_string(tree.rules[0].use[0]), "rack2:latency");
  const auto chosen = [&](std::initializer_list<const char*> there) {
    return to_string(*decide(tree, facts_with(tree.targets, there)).target);
  };
  EXPECT_EQ(chosen({"rack1", "rack2", "cpu"}), "rack2:latency") << "the configuration's order";
  EXPECT_EQ(chosen({"rack1", "cpu"}), "rack1:latency");
  EXPECT_EQ(chosen({"box", "cpu"}), "cpu");
}

TEST(Targets, AnInstanceThatIsNamedFirstIsNotTriedTwice) {
  const Tree tree =
      tree_with("rules: [{id: far, because: b, use: [rack1, vllm, box]}]\n" + std::string(kCpuElse));
  std::vector<std::string> used;
  for (const Target& target : tree.rules[0].use) used.push_back(to_string(target));
  EXPECT_THAT(used, ElementsAre("rack1", "rack2", "box"));
  EXPECT_TRUE(lint(tree).empty());
}

TEST(Targets, ConstraintsDenyAnInstanceAKindOrAllThatAreRemote) {
  const auto denied = [&](const std::string& deny) {
    const Tree tree =
        tree_with("constraints: {c: {because: no, when: {fact: model.moe, exists: true}, deny: " + deny +
                  "}}\n" + kCpuElse);
    std::vector<std::string> out;
    for (const TargetInstance& target : tree.targets->instances())
      if (denies(tree.constraints[0], target.id)) out.push_back(target.id);
    return out;
  };
  EXPECT_THAT(denied("rack2"), ElementsAre("rack2"));
  EXPECT_THAT(denied("vllm"), ElementsAre("rack2", "rack1"));
  EXPECT_THAT(denied("[llama_server, cpu]"), ElementsAre("cpu", "box"));
  EXPECT_THAT(denied("remote"), ElementsAre("rack2", "rack1", "box", "sglang", "tensorrt_llm", "dynamo"));

  // A kind's name rules out the instance that is denied.
  const Tree tree = tree_with(
      "constraints: {c: {because: no, when: {fact: app.privacy, eq: local_only}, deny: rack2}}\n"
      "rules: [{id: far, because: b, use: vllm}]\n" +
      std::string(kCpuElse));
  Facts facts = facts_with(tree.targets, {"rack1", "rack2", "cpu"});
  facts.set("app.privacy", std::string("local_only"), "test");
  EXPECT_EQ(to_string(*decide(tree, facts).target), "rack1");
}

TEST(Targets, UnknownNamesAreMistakes) {
  const auto use = [](const std::string& target) {
    return "rules: [{id: a, because: b, use: " + target + "}]\n" + std::string(kCpuElse);
  };
  EXPECT_THAT(mistake_of(use("rack3")), HasSubstr("unknown target \"rack3\"; did you mean \"rack2\"?"));
  EXPECT_THAT(mistake_of(use("rack-3")), HasSubstr("unknown target \"rack-3\""));
  EXPECT_THAT(mistake_of(use("rack1"), default_targets()), HasSubstr("unknown target \"rack1\""));
  EXPECT_THAT(mistake_of("constraints: {c: {because: no, when: {fact: model.moe, eq: true}, deny: rack3}}\n" +
                         std::string(kCpuElse)),
              HasSubstr("rack2, rack1, box"));
  EXPECT_THAT(
      mistake_of("rules: [{id: a, because: b, use: cpu, when: {fact: backend.rack3.loaded, eq: true}}]\n" +
                 std::string(kCpuElse)),
      HasSubstr("unknown fact \"backend.rack3.loaded\"; did you mean \"backend.rack1.loaded\"?"));
}

TEST(Targets, MoreThanADecisionHoldsAreRefused) {
  std::vector<TargetInstance> many;
  for (int i = 0; i < 65; ++i) many.push_back({"u" + std::to_string(i), "vllm"});
  EXPECT_THAT(mistake_of("default: {because: b, use: vllm}\n", TargetCatalogue::make(many).value()),
              HasSubstr("65 different targets are named"));
  many.pop_back();
  EXPECT_EQ(mistake_of("default: {because: b, use: vllm}\n", TargetCatalogue::make(many).value()), "");
}

TEST(Targets, TheSchemaListsTheNamesOfItsCatalogue) {
  const auto pattern = [](const std::string& schema) {
    return nlohmann::json::parse(schema)["properties"]["default"]["properties"]["use"]["anyOf"][0]["pattern"]
        .get<std::string>();
  };
  EXPECT_EQ(pattern(policy_schema()),
            "^(cpu|vulkan|opencl|vllm|sglang|tensorrt_llm|dynamo)(:[A-Za-z0-9_-]{1,48})?$");
  EXPECT_THAT(pattern(policy_schema(*racks())), HasSubstr("|rack2|rack1|box|"));
}

TEST(Targets, ReceiptsAndExplanationsNameTheInstance) {
  const Tree tree = tree_with(
      "rules: [{id: far, because: b, when: {fact: backend.vllm.queue_waiting, lt: 8}, use: vllm}]\n" +
      std::string(kCpuElse));
  Facts facts = facts_with(tree.targets, {"rack1", "cpu"});
  facts.set("backend.rack2.reason", std::string("no answer"), "test");
  facts.set("backend.rack1.queue_waiting", std::int64_t{2}, "test");
  derive(facts);
  const nlohmann::json receipt = policy::receipt(decide(tree, facts), facts);
  EXPECT_EQ(receipt["target"]["backend"], "rack1");
  EXPECT_EQ(receipt["targets"][0]["backend"], "rack2");
  EXPECT_EQ(receipt["targets"][0]["reason"], "no answer");
  EXPECT_EQ(receipt["targets"][1]["known"][0]["name"], "queue_waiting");
  EXPECT_EQ(receipt["facts"][0]["name"], "backend.vllm.queue_waiting");
  EXPECT_EQ(receipt["facts"][1]["name"], "backend.rack1.queue_waiting") << "what it follows from";
  const std::string text = explain_text(receipt);
  EXPECT_THAT(text, HasSubstr("rack1, by rule far"));
  EXPECT_THAT(text, HasSubstr("unavailable rack2"));

  const nlohmann::json answer = why_not(decide(tree, facts), facts, {"vllm", ""});
  ASSERT_EQ(answer["places"].size(), 2U) << "a kind is asked about by its name";
  EXPECT_EQ(answer["places"][0]["target"], "rack2");
  EXPECT_EQ(answer["places"][1]["status"], "chosen");
  EXPECT_TRUE(answer["unusable"].is_null()) << "one instance is available";
  EXPECT_EQ(why_not(decide(tree, facts), facts, {"rack2", ""})["places"].size(), 1U);
  facts.set("backend.rack2.available", false, "test");
  facts.set("backend.rack1.available", false, "test");
  EXPECT_EQ(
      why_not(decide(tree, facts), facts, {"vllm", ""})["unusable"],
      "vllm is not available, so no rule can choose it: rack2: no answer; rack1: backend.rack1.available is "
      "false (test)");
}

TEST(Targets, ProofsLookAtEveryInstance) {
  const Tree tree = tree_with(
      "constraints: {stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n"
      "rules: [{id: far, because: b, when: {fact: backend.rack1.queue_waiting, lt: 8}, use: [vllm, box]}]\n" +
      std::string(kCpuElse));
  std::vector<Condition> local{assumption("app.privacy=local_only", tree.targets).value()};
  const Proof remote = prove_never(tree, kRemote, local);
  EXPECT_TRUE(remote.possible);
  EXPECT_TRUE(remote.holds());
  EXPECT_EQ(remote.places, 3U);

  const Proof open = prove_never(tree, "vllm", {});
  ASSERT_EQ(open.open.size(), 2U);
  for (const Proof::Place& place : open.open) {
    const Facts& facts = place.answer.facts;
    EXPECT_TRUE(facts.is_true(tree.targets->fact_of(place.target->backend, TargetFact::available)));
    EXPECT_EQ(decide(tree, facts).tree, &tree);
  }
  EXPECT_EQ(prove_never(tree, "rack1", {}).places, 1U);
  EXPECT_TRUE(assumption("backend.rack1.loaded=true", tree.targets));
  EXPECT_FALSE(assumption("backend.rack1.loaded=true"));
  EXPECT_TRUE(dead_ends(tree).empty());
}

TEST(Targets, ToolsShowInstances) {
  const Tree tree =
      tree_with("rules: [{id: far, because: b, when: {fact: backend.rack1.loaded, eq: true}, use: vllm}]\n" +
                std::string(kCpuElse));
  EXPECT_EQ(to_text(tree.rules[0].when, *tree.targets), "backend.rack1.loaded = true");
  EXPECT_THAT(to_dot(tree, {}), HasSubstr("target rack2"));
}

TEST(Targets, AdviceSaysThatAnUpstreamStandsForItsKind) {
  const Tree tree =
      tree_with("rules: [{id: far, because: b, engine: vllm, use: vllm}]\n" + std::string(kCpuElse));
  Facts facts(tree.targets);
  ASSERT_TRUE(set_fact("backend.rack1.available=true", "test", facts));
  const auto reading = read_scenario("one RTX 4090, chat", facts);
  ASSERT_TRUE(reading);
  ASSERT_TRUE(complete_scenario(facts));
  EXPECT_EQ(facts.get("backend.rack2.available"), nullptr) << "words say nothing of a configured upstream";
  EXPECT_EQ(facts.get("backend.sglang.available")->value, FactValue(false));
  const Decision decision = decide(tree, facts);
  const nlohmann::json said = to_json(advise(decision, facts, *reading), decision, facts, *reading);
  EXPECT_EQ(said["target"], "rack1");
  EXPECT_EQ(said["stands_for"], true);
}

TEST(TargetsDeathTest, ADecisionOfAnotherCatalogueIsABrokenInvariant) {
  const Tree tree = tree_with(kCpuElse);
  EXPECT_DEATH((void)decide(tree, Facts()), "");
}

}  // namespace
}  // namespace flyball::policy
