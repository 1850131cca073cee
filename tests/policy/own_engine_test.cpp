// Profiles with an engine of their own: what the file says, the targets and facts that follow, decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/engine_kinds.hpp"
#include "policy/advice.hpp"
#include "policy/decide.hpp"
#include "policy/graph.hpp"
#include "policy/reach.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using config::EngineSettings;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const kNight = R"(profiles:
  night: {because: nobody waits, place: behind, engine: own, threads: 1, nice: 10, lock_memory: true, keep_loaded: true}
  plain: {because: another one, engine: shared}
)";

Result<Tree> read_own(const std::string& text, const Targets& targets = default_targets()) {
  return parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml", targets);
}
Tree own_tree(const std::string& text, const Targets& targets = default_targets()) {
  auto tree = read_own(text, targets);
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}
std::string use_by_default(const std::string& targets) {
  return "default: {because: b, use: " + targets + "}\n";
}
// Every engine of this machine is available but these.
Facts own_facts_without(const Tree& tree, std::initializer_list<const char*> missing) {
  Facts facts(tree.targets);
  for (const TargetInstance& target : tree.targets->instances())
    facts.set(
        fact_of(target, TargetFact::available),
        !target.remote && std::ranges::none_of(missing, [&](const char* id) { return target.id == id; }),
        "test");
  return facts;
}
std::string own_chosen(const Tree& tree, const Facts& facts) {
  const Decision decision = decide(tree, facts);
  return decision.target ? to_string(*decision.target) : "";
}

TEST(EngineKinds, AnEnginesKindStandsBeforeItsProfile) {
  EXPECT_EQ(config::kind_of("cpu:night"), "cpu");
  EXPECT_EQ(config::kind_of("vulkan"), "vulkan");
  EXPECT_EQ(config::kind_of(""), "");
}

TEST(OwnEngine, IsSetAsTheFileSays) {
  const Tree tree = own_tree(kNight + use_by_default("['cpu:night', 'cpu:plain', cpu]"));
  ASSERT_TRUE(tree.profiles[0].own_engine);
  EXPECT_EQ(*tree.profiles[0].own_engine, (EngineSettings{1U, 10, true, true}));
  EXPECT_FALSE(tree.profiles[1].own_engine);
  EXPECT_EQ(to_text(tree.profiles[0]),
            "place behind; engine of its own: 1 thread, nice 10, memory locked, kept loaded");
  EXPECT_EQ(to_text(tree.profiles[1]), "nothing");

  const Tree bare =
      own_tree("profiles: {night: {because: b, engine: own}}\n" + use_by_default("['cpu:night']"));
  EXPECT_EQ(*bare.profiles[0].own_engine, EngineSettings{});
  EXPECT_EQ(to_text(bare.profiles[0]), "engine of its own");
  EXPECT_THAT(to_dot(bare, {}), HasSubstr("[label=\"cpu:night\\nengine of its own\""));
}

TEST(OwnEngine, IsAnInstanceWithItsOwnFacts) {
  const Tree tree = own_tree(kNight + use_by_default("['cpu:night', 'cpu:plain', cpu]"));
  ASSERT_EQ(tree.fallback.use.size(), 3U);
  EXPECT_EQ(tree.fallback.use[0].backend, "cpu:night");
  EXPECT_EQ(tree.fallback.use[0].profile, "night");
  EXPECT_EQ(to_string(tree.fallback.use[0]), "cpu:night");
  EXPECT_EQ(tree.fallback.use[1].backend, "cpu") << "its profile shares the engine";
  EXPECT_EQ(to_string(tree.fallback.use[1]), "cpu:plain");

  const TargetInstance* const own = tree.targets->find("cpu:night");
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(own->kind, "cpu");
  EXPECT_FALSE(own->remote);
  EXPECT_EQ(own->settings.nice, 10);
  EXPECT_EQ(tree.targets->find("vulkan:night"), nullptr) << "no rule names it";
  EXPECT_EQ(tree.targets->find_fact("backend.cpu:night.loaded"), fact_of(*own, TargetFact::loaded));
  EXPECT_NE(fact_of(*own, TargetFact::loaded), tree.targets->fact_of("cpu", TargetFact::loaded));
  EXPECT_EQ(own_engines_of(*tree.targets).at("cpu:night"), own->settings);
  EXPECT_THAT(tree.targets->derived_kinds(), IsEmpty());
}

TEST(OwnEngine, IsFoundInEveryRuleThatNamesIt) {
  const Tree tree = own_tree(std::string(kNight) + R"(rules:
  - {id: a, because: b, when: {fact: model.moe, eq: true}, rules: [{id: c, because: b, use: 'vulkan:night'}]}
)" + use_by_default("[cpu, 'opencl:night']"));
  EXPECT_NE(tree.targets->find("vulkan:night"), nullptr);
  EXPECT_NE(tree.targets->find("opencl:night"), nullptr);
  EXPECT_EQ(tree.targets->find("cpu:night"), nullptr);
}

TEST(OwnEngine, WithoutOneTheCatalogueStaysAsItIs) {
  const Tree tree = own_tree("profiles: {plain: {because: b, engine: shared}}\n" +
                             use_by_default("['cpu:plain', 'vulkan:latency']"));
  EXPECT_EQ(tree.targets, default_targets());
  const Tree unused = own_tree("profiles: {night: {because: b, engine: own}}\n" + use_by_default("cpu"));
  EXPECT_EQ(unused.targets, default_targets());
}

TEST(OwnEngine, IsNeverMeantByTheNameOfItsKind) {
  const Tree tree = own_tree(std::string(kNight) + R"(rules:
  - {id: night, because: b, when: {fact: workload.class, eq: batch}, use: 'cpu:night'}
)" + use_by_default("[vulkan, cpu]"));
  Facts facts = own_facts_without(tree, {"vulkan", "cpu"});
  facts.set("workload.class", std::string("chat"), "test");
  EXPECT_EQ(own_chosen(tree, facts), "") << "cpu:night is there, and the rule says cpu";
  facts.set("backend.cpu.available", true, "test");
  EXPECT_EQ(own_chosen(tree, facts), "cpu");
  facts.set("workload.class", std::string("batch"), "test");
  EXPECT_EQ(own_chosen(tree, facts), "cpu:night");
  facts.set("backend.cpu:night.available", false, "test");
  EXPECT_EQ(own_chosen(tree, facts), "cpu") << "on to the next rule";
}

TEST(OwnEngine, IsDeniedWithItsKindAndAlone) {
  const auto denied = [](const std::string& deny) {
    const Tree tree =
        own_tree(std::string(kNight) +
                 "constraints: {c: {because: no, when: {fact: model.moe, eq: true}, deny: " + deny + "}}\n" +
                 use_by_default("['cpu:night', cpu, vulkan]"));
    Facts facts = own_facts_without(tree, {});
    facts.set("model.moe", true, "test");
    return tree.constraints[0].denied.size() == 0 ? "nothing" : own_chosen(tree, facts);
  };
  EXPECT_EQ(denied("cpu"), "vulkan") << "a kind denied is denied in all its forms";
  EXPECT_EQ(denied("'cpu:night'"), "cpu");
  EXPECT_EQ(denied("vulkan"), "cpu:night");
}

TEST(OwnEngine, AProofOfNeverHoldsForAllFormsOfAKind) {
  const Tree tree = own_tree(kNight + use_by_default("['cpu:night', vulkan]"));
  EXPECT_EQ(prove_never(tree, "cpu", {}).places, 1U);
  EXPECT_EQ(prove_never(tree, "cpu:night", {}).places, 1U);
}

TEST(OwnEngine, ConditionsMayNameItsFacts) {
  const Tree tree = own_tree(std::string(kNight) + R"(rules:
  - {id: night, because: b, when: {fact: 'backend.cpu:night.queue_waiting', lt: 2}, use: 'cpu:night'}
)" + use_by_default("cpu"));
  Facts facts = own_facts_without(tree, {});
  facts.set("backend.cpu.queue_waiting", std::int64_t{0}, "test");
  facts.set("backend.cpu:night.queue_waiting", std::int64_t{5}, "test");
  EXPECT_EQ(own_chosen(tree, facts), "cpu");
  facts.set("backend.cpu:night.queue_waiting", std::int64_t{1}, "test");
  EXPECT_EQ(own_chosen(tree, facts), "cpu:night");
}

TEST(OwnEngine, IsNoneOfTheFastestNorOutpaced) {
  const Tree tree = own_tree(kNight + use_by_default("['cpu:night', cpu, vulkan]"));
  Facts facts = own_facts_without(tree, {"opencl"});
  facts.set("backend.cpu.decode_tps", 10.0, "measured");
  facts.set("backend.vulkan.decode_tps", 20.0, "measured");
  facts.set("backend.cpu:night.decode_tps", 90.0, "measured");
  derive(facts);
  EXPECT_EQ(facts.get("engines.fastest")->value, FactValue(std::string("vulkan")));
  EXPECT_EQ(facts.get("backend.cpu.outpaced")->value, FactValue(true));
  EXPECT_EQ(facts.get("backend.vulkan.outpaced")->value, FactValue(false));
  EXPECT_EQ(facts.get("backend.cpu:night.outpaced"), nullptr);
}

// An engine that is kept loaded ends for nobody, so the shared one must find room beside it.
TEST(OwnEngine, KeptLoadedFitsWhereTheSharedOneFitsToo) {
  const Tree tree = own_tree(R"(profiles:
  night: {because: b, engine: own, nice: 10}
  pinned: {because: b, engine: own, keep_loaded: true}
)" + use_by_default("['cpu:night', 'cpu:pinned', cpu]"));
  const auto fits = [&](std::int64_t free, const char* loaded, const char* engine) {
    Facts facts = own_facts_without(tree, {});
    facts.set("model.bytes", std::int64_t{900}, "model file");
    facts.set("model.kv_bytes", std::int64_t{100}, "model file");
    for (const TargetInstance& target : tree.targets->instances())
      if (target.kind == "cpu") {
        facts.set(fact_of(target, TargetFact::memory_free), free, "supervisor");
        facts.set(fact_of(target, TargetFact::loaded), target.id == loaded, "supervisor");
      }
    derive(facts);
    return std::get<bool>(facts.get("backend." + std::string(engine) + ".fits_now")->value);
  };
  EXPECT_TRUE(fits(1000, "", "cpu"));
  EXPECT_TRUE(fits(1000, "", "cpu:night")) << "it ends for the shared one's load";
  EXPECT_FALSE(fits(999, "", "cpu:night"));
  EXPECT_FALSE(fits(1999, "", "cpu:pinned"));
  EXPECT_TRUE(fits(2000, "", "cpu:pinned"));
  EXPECT_TRUE(fits(1000, "cpu", "cpu:pinned")) << "the shared one has its memory already";
  EXPECT_FALSE(fits(999, "cpu", "cpu:pinned"));
  EXPECT_FALSE(fits(1999, "cpu:night", "cpu:pinned")) << "that is not the shared one";
  EXPECT_TRUE(fits(0, "cpu:pinned", "cpu:pinned")) << "it has its memory already";
}

TEST(OwnEngine, KeptLoadedFitsNowhereWithAModelOfAnySize) {
  const Tree tree = own_tree("profiles: {pinned: {because: b, engine: own, keep_loaded: true}}\n" +
                             use_by_default("['cpu:pinned', cpu]"));
  Facts facts = own_facts_without(tree, {});
  facts.set("model.bytes", std::numeric_limits<std::int64_t>::max() - 1, "model file");
  facts.set("backend.cpu:pinned.memory_free", std::int64_t{1} << 40, "supervisor");
  derive(facts);
  EXPECT_EQ(facts.get("backend.cpu:pinned.fits_now")->value, FactValue(false));
}

TEST(OwnEngine, NothingFindsRoomAtAnEngineThatIsNotThere) {
  const Tree tree =
      own_tree("profiles: {night: {because: b, engine: own}}\n" + use_by_default("['cpu:night', cpu]"));
  Facts facts = own_facts_without(tree, {"cpu:night"});
  facts.set("model.bytes", std::int64_t{1000}, "model file");
  for (const char* engine : {"cpu", "cpu:night"})
    facts.set("backend." + std::string(engine) + ".memory_free", std::int64_t{1000}, "supervisor");
  derive(facts);
  EXPECT_EQ(facts.get("backend.cpu.fits_now")->value, FactValue(true));
  EXPECT_EQ(facts.get("backend.cpu:night.fits_now"), nullptr);
}

TEST(OwnEngine, FactsOfAnotherCatalogueAreTakenOver) {
  const Tree old =
      own_tree("profiles: {day: {because: b, engine: own}}\n" + use_by_default("['cpu:day', vulkan]"));
  const Tree now = own_tree(kNight + use_by_default("['vulkan:night', 'cpu:night']"));
  Facts facts = own_facts_without(old, {"vulkan"});
  facts.set("backend.vulkan.reason", std::string("no device"), "probe", std::chrono::milliseconds(7));
  facts.set("hardware.cpu.cores", std::int64_t{8}, "probe", std::chrono::milliseconds(9));
  const Facts taken = in_catalogue(facts, now.targets);
  EXPECT_EQ(taken.targets(), now.targets);
  EXPECT_EQ(taken.get("hardware.cpu.cores")->value, FactValue(std::int64_t{8}));
  EXPECT_EQ(taken.get("hardware.cpu.cores")->age.count(), 9);
  EXPECT_EQ(taken.get("backend.cpu:night.available")->value, FactValue(true)) << "as cpu is";
  EXPECT_EQ(taken.get("backend.vulkan:night.available")->value, FactValue(false));
  EXPECT_EQ(taken.get("backend.vulkan:night.reason")->value, FactValue(std::string("no device")));
  EXPECT_EQ(own_chosen(now, taken), "cpu:night");
}

TEST(OwnEngine, ReceiptsAndExplanationsSayItsSettings) {
  const Tree tree = own_tree(kNight + use_by_default("['cpu:night', cpu]"));
  Facts facts = own_facts_without(tree, {});
  derive(facts);
  const nlohmann::json told = receipt(decide(tree, facts), facts);
  EXPECT_EQ(told["target"]["backend"], "cpu:night");
  EXPECT_EQ(told["target"]["profile"], "night");
  EXPECT_THAT(told["target"]["settings"].get<std::string>(), HasSubstr("engine of its own: 1 thread"));
  EXPECT_EQ(told["targets"][0]["backend"], "cpu:night");
  const std::string text = explain_text(told);
  EXPECT_THAT(text, testing::StartsWith("cpu:night, by rule default"));
  EXPECT_THAT(text, HasSubstr("profile  night sets place behind; engine of its own: 1 thread, nice 10"));
  EXPECT_THAT(text, testing::Not(HasSubstr("night:night")));
  facts.set("backend.cpu:night.available", false, "test");
  EXPECT_FALSE(receipt(decide(tree, facts), facts)["target"].contains("settings"));
}

TEST(OwnEngine, EveryFindingHasItsPlace) {
  struct Case {
    const char* what;
    std::string text;
    const char* says;
    const char* where;
  };
  const auto profile = [](const std::string& keys) {
    return "profiles:\n  p: {because: b, " + keys + "}\n" + use_by_default("'cpu:p'");
  };
  const Case cases[] = {
      {"threads alone", profile("threads: 2"), "threads is a setting of an engine of its own", "p.yaml:3:19"},
      {"shared", profile("engine: shared, nice: 3"), "add `engine: own`, or remove nice", "p.yaml:3:35"},
      {"no number of threads", profile("engine: own, threads: 0"), "expected 1 to 4096", "p.yaml:3:41"},
      {"too nice", profile("engine: own, nice: 20"), "expected 0 to 19", "p.yaml:3:38"},
      {"another engine", profile("engine: mine"), "expected shared or own", "p.yaml:3:27"},
      {"an upstream", "profiles: {p: {because: b, engine: own}}\n" + use_by_default("['cpu:p', 'vllm:p']"),
       "vllm is a remote server, on which flyball starts no engine", "p.yaml:3:38"},
      {"a fact of an engine that no rule names",
       "profiles: {p: {because: b, engine: own}}\n"
       "rules: [{id: r, because: b, when: {fact: 'backend.cpu:p.loaded', eq: true}, use: cpu}]\n" +
           use_by_default("cpu"),
       "unknown fact \"backend.cpu:p.loaded\"", "p.yaml:3:42"},
  };
  for (const Case& one : cases) {
    const auto tree = read_own(one.text);
    ASSERT_FALSE(tree) << one.what;
    EXPECT_THAT(tree.error().message, HasSubstr(one.says)) << one.what;
    EXPECT_EQ(tree.error().where, one.where) << one.what;
  }
}

TEST(OwnEngine, SettingsThatNoneOfItsEnginesHasAreWarnings) {
  const auto warnings = [](const std::string& targets) {
    std::vector<std::string> out;
    for (const LintFinding& finding :
         lint(own_tree("profiles:\n  p: {because: b, engine: own, threads: 2, lock_memory: true}\n" +
                       use_by_default(targets))))
      out.push_back(finding.where + " " + finding.message);
    return out;
  };
  EXPECT_THAT(
      warnings("['vulkan:p', cpu]"),
      ElementsAre("p.yaml:3:3 profile \"p\": threads is a setting of the cpu engine, and no target is cpu:p",
                  "p.yaml:3:3 profile \"p\": lock_memory is a setting of the cpu engine, and no target is "
                  "cpu:p"));
  EXPECT_THAT(warnings("['vulkan:p', 'cpu:p']"), IsEmpty());
  EXPECT_THAT(warnings("cpu"), ElementsAre("p.yaml:3:3 profile \"p\" is used by no target"));
}

// The prepass reads a file that nobody has checked yet.
TEST(OwnEngine, WrongShapesAreFindings) {
  for (const char* text :
       {"profiles: [own]\ndefault: 3\n",
        "profiles: {p: own}\nrules: {a: 'cpu:p'}\ndefault: {because: b, use: cpu}\n",
        "profiles: {p: {engine: [own]}}\nrules: [1, [2], {rules: [{use: {a: 'cpu:p'}}]}]\n",
        "profiles: {p: {engine: own, threads: many}}\ndefault: {because: b, use: 'cpu:p'}\n"})
    EXPECT_FALSE(read_own(text)) << text;
}

TEST(OwnEngine, BesideUpstreamsEveryoneKeepsTheirFacts) {
  const Targets racks = TargetCatalogue::make({{"rack1", "vllm"}, {"rack2", "vllm"}}).value();
  const Tree tree = own_tree(kNight + use_by_default("[vllm, 'cpu:night']"), racks);
  for (std::size_t i = 0; i < tree.targets->facts().size(); ++i)
    EXPECT_EQ(tree.targets->find_fact(tree.targets->facts()[i].name), i);
  EXPECT_THAT(tree.targets->derived_kinds(), ElementsAre("vllm"));
  EXPECT_EQ(own_chosen(tree, own_facts_without(tree, {})), "cpu:night");
}

}  // namespace
}  // namespace flyball::policy
