// The semantics of docs/policy-language.md, one at a time, and a receipt byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/yaml.hpp"
#include "policy/decide.hpp"
#include "policy/why_not.hpp"

namespace flyball::policy {
namespace {

using testing::HasSubstr;

Tree tree_of(const std::string& rules,
             const std::string& fallback = "default: {because: otherwise, use: cpu}\n") {
  auto tree = parse_policy("schema: flyball.policy/v1\n" + rules + fallback, "p.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(tree).value_or(Tree{});
}

Facts available(std::initializer_list<const char*> backends) {
  Facts facts;
  for (const char* backend : backends)
    facts.set(std::string("backend.") + backend + ".available", true, "test");
  return facts;
}

std::string chosen(const Tree& tree, const Facts& facts) {
  const Decision d = decide(tree, facts);
  if (!d.target) return (d.queue ? "queue by " : "none by ") + d.rule->id;
  return to_string(*d.target) + " by " + d.rule->id;
}

TEST(Decide, FirstTrueRuleWins) {
  const Tree tree = tree_of(
      "rules:\n"
      "  - {id: no, because: b, when: {fact: model.moe, eq: false}, use: vllm}\n"
      "  - {id: first, because: b, when: {fact: model.moe, eq: true}, use: vulkan}\n"
      "  - {id: second, because: b, when: {fact: model.moe, eq: true}, use: opencl}\n");
  Facts facts = available({"cpu", "vulkan", "opencl", "vllm"});
  facts.set("model.moe", true, "test");
  EXPECT_EQ(chosen(tree, facts), "vulkan by first");
}

TEST(Decide, AnUnknownConditionDoesNotDecide) {
  const Tree tree = tree_of(
      "rules:\n"
      "  - {id: eq, because: b, when: {fact: model.moe, eq: true}, use: vulkan}\n"
      "  - {id: ne, because: b, when: {fact: model.moe, ne: true}, use: vulkan}\n"
      "  - {id: not, because: b, when: {not: {fact: model.moe, eq: true}}, use: vulkan}\n"
      "  - {id: known, because: b, when: {fact: model.moe, exists: true}, use: vulkan}\n"
      "  - {id: unknown, because: b, when: {fact: model.moe, exists: false}, use: opencl}\n");
  EXPECT_EQ(chosen(tree, available({"cpu", "vulkan", "opencl"})), "opencl by unknown");
}

TEST(Decide, KleeneTables) {
  // Facts t (true), f (false) and u (unknown) in every pair.
  const char* names[] = {"model.moe", "request.stream", "workload.fixed_critical"};
  Facts facts = available({"cpu", "vulkan"});
  facts.set(names[0], true, "test");
  facts.set(names[1], false, "test");
  const Truth truths[] = {Truth::yes, Truth::no, Truth::unknown};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      for (const char* kind : {"all", "any"}) {
        const std::string pair =
            std::string("[{fact: ") + names[a] + ", eq: true}, {fact: " + names[b] + ", eq: true}]";
        const Tree tree = tree_of(std::string("rules:\n  - {id: r, because: b, when: {") + kind + ": " +
                                  pair + "}, use: vulkan}\n");
        const bool all = std::string(kind) == "all";
        const Truth settling = all ? Truth::no : Truth::yes;
        const Truth expected = truths[a] == settling || truths[b] == settling               ? settling
                               : truths[a] == Truth::unknown || truths[b] == Truth::unknown ? Truth::unknown
                               : all                                                        ? Truth::yes
                                                                                            : Truth::no;
        EXPECT_EQ(decide(tree, facts).rules[0].outcome, expected) << kind << " " << pair;
      }
}

TEST(Decide, Operators) {
  Facts facts = available({"cpu", "vulkan"});
  facts.set("model.bytes", std::int64_t{5}, "test");
  facts.set("hardware.cpu.bandwidth", 2.5, "test");
  facts.set("model.id", std::string("m"), "test");
  facts.set("workload.modalities", std::vector<std::string>{"text", "image"}, "test");
  const auto holds = [&](const std::string& when) {
    return decide(tree_of("rules:\n  - {id: r, because: b, when: {fact: " + when + "}, use: vulkan}\n"),
                  facts)
        .rules[0]
        .outcome;
  };
  for (const char* yes :
       {"model.bytes, eq: 5", "model.bytes, gte: 5", "model.bytes, lte: 5", "model.bytes, gt: 4",
        "model.bytes, lt: 6", "model.bytes, ne: 4", "hardware.cpu.bandwidth, gt: 2",
        "hardware.cpu.bandwidth, eq: 2.5", "model.id, eq: m", "model.id, ne: n", "model.id, in: [l, m]",
        "workload.modalities, in: [image, audio]", "model.id, exists: true"})
    EXPECT_EQ(holds(yes), Truth::yes) << yes;
  for (const char* no : {"model.bytes, eq: 4", "model.bytes, gt: 5", "model.bytes, lt: 5",
                         "model.bytes, ne: 5", "model.id, in: [l]", "workload.modalities, in: [audio]",
                         "model.id, exists: false", "hardware.cpu.bandwidth, lt: 2.5"})
    EXPECT_EQ(holds(no), Truth::no) << no;
}

TEST(Decide, NestedRulesThatDoNotDecideGoOnWithTheNextSibling) {
  const Tree tree = tree_of(
      "rules:\n"
      "  - id: outer\n"
      "    because: b\n"
      "    rules:\n"
      "      - {id: no, because: b, when: {fact: model.moe, eq: true}, use: cpu}\n"
      "      - {id: down, because: b, use: vulkan}\n"
      "  - {id: next, because: b, use: opencl}\n");
  Facts facts = available({"cpu", "opencl"});
  facts.set("model.moe", false, "test");
  EXPECT_EQ(chosen(tree, facts), "opencl by next");
  const Decision d = decide(tree, facts);
  ASSERT_EQ(d.rules.size(), 4U);
  EXPECT_EQ(d.rules[1].depth, 1U);
  EXPECT_EQ(d.targets[0].verdict, Verdict::unavailable);
}

TEST(Decide, OnUnavailable) {
  const auto with = [&](const char* what) {
    return tree_of(std::string("rules:\n  - {id: r, because: b, use: vulkan, on_unavailable: ") + what +
                   "}\n");
  };
  const Facts facts = available({"cpu"});
  EXPECT_EQ(chosen(with("next"), facts), "cpu by default");
  EXPECT_EQ(chosen(with("queue"), facts), "queue by r");
  EXPECT_EQ(chosen(with("fail"), facts), "none by r");
  const Tree waits = tree_of("", "default: {because: b, use: cpu, on_unavailable: queue}\n");
  EXPECT_EQ(chosen(waits, available({})), "queue by default");
  EXPECT_EQ(chosen(tree_of(""), available({})), "none by default");
}

TEST(Decide, UnknownAvailabilityIsUnavailable) {
  const Tree tree = tree_of("");
  const Decision d = decide(tree, Facts());
  EXPECT_EQ(d.target, nullptr);
  EXPECT_EQ(reason(d.targets[0], Facts()), "it is not known whether it is available");
  Facts facts;
  facts.set("backend.cpu.available", false, "supervisor");
  facts.set("backend.cpu.reason", std::string("disabled: died three times"), "supervisor");
  EXPECT_EQ(reason(decide(tree_of(""), facts).targets[0], facts), "disabled: died three times");
}

TEST(Decide, ConstraintsHoldWhateverTheRulesSay) {
  const Tree tree = tree_of(
      "constraints: {stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n"
      "rules:\n  - {id: r, because: b, use: [vllm, cpu]}\n");
  Facts facts = available({"cpu", "vllm"});
  EXPECT_EQ(chosen(tree, facts), "cpu by r") << "unknown privacy counts as a denial";
  EXPECT_EQ(reason(decide(tree, facts).targets[0], facts), "it is not known whether this holds: private");
  facts.set("app.privacy", std::string("local_only"), "manifest");
  EXPECT_EQ(chosen(tree, facts), "cpu by r");
  const Decision denied = decide(tree, facts);
  EXPECT_EQ(denied.targets[0].verdict, Verdict::denied);
  EXPECT_EQ(denied.targets[0].denied_by->id, "stay");
  EXPECT_EQ(reason(denied.targets[0], facts), "private");
  facts.set("app.privacy", std::string("any"), "manifest");
  EXPECT_EQ(chosen(tree, facts), "vllm by r");
}

TEST(Decide, WhatIsDeniedIsNotWaitedFor) {
  const Tree tree = tree_of(
      "constraints: {stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n"
      "rules:\n  - {id: r, because: b, use: vllm, on_unavailable: queue}\n");
  Facts facts = available({"cpu"});
  facts.set("app.privacy", std::string("any"), "manifest");
  EXPECT_EQ(chosen(tree, facts), "queue by r");
  facts.set("app.privacy", std::string("local_only"), "manifest");
  EXPECT_EQ(chosen(tree, facts), "none by r");
}

TEST(Decide, AlternativesAreTraced) {
  const Tree tree = tree_of("rules:\n  - {id: r, because: b, use: [opencl, \"vulkan:latency\", cpu]}\n",
                            "default: {because: b, use: [cpu, vulkan]}\n");
  const Decision d = decide(tree, available({"cpu", "vulkan"}));
  ASSERT_EQ(d.targets.size(), 4U);
  EXPECT_EQ(d.targets[0].verdict, Verdict::unavailable);
  EXPECT_EQ(d.targets[1].verdict, Verdict::chosen);
  EXPECT_EQ(d.targets[2].verdict,
            Verdict::available);  // the default's cpu is the same target and not named twice
  EXPECT_EQ(to_string(*d.targets[3].target), "vulkan");
  EXPECT_EQ(d.targets[3].rule->id, "default");
}

// A rule that waits or refuses where its targets are missing takes nothing from behind it either, whether it
// chose or not.
TEST(Decide, NothingStandsBehindARuleThatEndsTheSearch) {
  for (const char* end : {"fail", "queue"}) {
    const Tree tree = tree_of(std::string("rules:\n  - {id: r, because: b, use: [opencl, cpu, vulkan], "
                                          "on_unavailable: ") +
                                  end + "}\n",
                              "default: {because: b, use: [vllm, cpu]}\n");
    const Decision d = decide(tree, available({"cpu", "vulkan", "vllm"}));
    ASSERT_EQ(d.targets.size(), 3U) << end;
    EXPECT_EQ(d.targets[1].verdict, Verdict::chosen) << end;
    EXPECT_EQ(d.targets[2].verdict, Verdict::available) << end;  // its own
    const Decision none = decide(tree, available({"vllm"}));
    EXPECT_FALSE(none.target) << end;
    for (const TargetTrace& trace : none.targets) EXPECT_EQ(trace.verdict, Verdict::unavailable) << end;
  }
}

TEST(Receipt, GoldenBytes) {
  const Tree tree = tree_of(
      "constraints: {stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n"
      "rules:\n"
      "  - id: gpu\n"
      "    because: a GPU is here\n"
      "    source: the guide\n"
      "    when: {all: [{fact: hardware.gpu.count, gte: 1}, {fact: model.moe, eq: false}]}\n"
      "    use: [vllm, \"vulkan:latency\"]\n");
  Facts facts = available({"cpu"});
  facts.set("app.privacy", std::string("local_only"), "manifest");
  facts.set("hardware.gpu.count", std::int64_t{1}, "probe", std::chrono::milliseconds(1500));
  facts.set("model.moe", false, "model file");
  facts.set("backend.vulkan.available", false, "build");
  facts.set("backend.vulkan.reason", std::string("not built"), "build");
  const nlohmann::json made = receipt(decide(tree, facts), facts);
  const auto golden = [](const char* name, const std::string& actual) {
    const auto expected =
        config::read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/tests/policy/golden/" + name);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(actual, *expected) << "golden file " << name;
  };
  golden("receipt.json", made.dump(2) + "\n");
  golden("receipt.txt", explain_text(made));
  EXPECT_EQ(made, receipt(decide(tree, facts), facts)) << "same inputs, same bytes";
}

TEST(Receipt, AgesAreRounded) {
  for (const auto& [ms, said] : {std::pair<std::int64_t, const char*>{12, "probe, 12 ms ago\n"},
                                 {9'999, "probe, 10 s ago\n"},
                                 {600'000, "probe, 10 min ago\n"},
                                 {36'000'000, "probe, 10 h ago\n"}}) {
    const nlohmann::json fact = {{"name", "f"}, {"value", 1}, {"source", "probe"}, {"age_ms", ms}};
    EXPECT_THAT(explain_text({{"facts", nlohmann::json::array({fact})}}), testing::HasSubstr(said));
  }
}

TEST(Receipt, ValuesAndOperandsHaveUnitsForPeople) {
  const Tree tree = tree_of(
      "rules:\n  - {id: r, because: b, when: {all: [{fact: model.bytes, lte: 8GiB},"
      " {fact: app.slo.deadline, gte: 90s}, {fact: backend.cpu.expected_tpot, lt: 1250}]}, use: cpu}\n");
  Facts facts = available({"cpu"});
  facts.set("model.bytes", std::int64_t{4'724'464'025}, "model file");
  facts.set("app.slo.deadline", std::int64_t{1'800'000}, "manifest");
  facts.set("backend.cpu.expected_tpot", std::int64_t{840}, "predicted");
  const auto made = receipt(decide(tree, facts), facts);
  EXPECT_EQ(made["facts"][0]["value"], 4'724'464'025) << "JSON keeps numbers";
  EXPECT_EQ(made["facts"][0]["unit"], "bytes");
  const std::string text = explain_text(made);
  EXPECT_THAT(text, HasSubstr("model.bytes                      4.4 GiB              model file\n"));
  EXPECT_THAT(text, HasSubstr("app.slo.deadline                 30 min               manifest\n"));
  EXPECT_THAT(text, HasSubstr("backend.cpu.expected_tpot        0.84 ms              predicted\n"));
  EXPECT_THAT(text, HasSubstr("model.bytes lte 8 GiB\n"));
  EXPECT_THAT(text, HasSubstr("app.slo.deadline gte 90 s\n"));
  EXPECT_THAT(text, HasSubstr("backend.cpu.expected_tpot lt 1.25 ms\n")) << "operands are exact";
}

TEST(Receipt, ValueThatWouldLookLikeItsOperandIsExact) {
  const Tree tree =
      tree_of("rules:\n  - {id: r, because: b, when: {fact: model.bytes, gte: 8GiB}, use: cpu}\n");
  Facts facts = available({"cpu"});
  facts.set("model.bytes", (std::int64_t{8} << 30) - 1, "model file");
  EXPECT_THAT(explain_text(receipt(decide(tree, facts), facts)),
              AllOf(HasSubstr(" 8589934591 bytes "), HasSubstr("no      model.bytes gte 8 GiB\n")));
  EXPECT_THAT(why_not_text(why_not(decide(tree, facts), facts, {"cpu", "", 0})),
              HasSubstr("no: model.bytes gte 8 GiB; it is 8589934591 bytes (model file)\n"));
  facts.set("model.bytes", std::int64_t{8} << 30, "model file");
  EXPECT_THAT(explain_text(receipt(decide(tree, facts), facts)), HasSubstr(" 8 GiB  "));
}

TEST(Receipt, PredictedTimesOfATargetStandInOneLineInMilliseconds) {
  const Tree tree = tree_of("rules:\n  - {id: r, because: b, use: [cpu, vulkan]}\n");
  Facts facts = available({"cpu", "vulkan"});
  facts.set("backend.cpu.expected_total", std::int64_t{1'813'078}, "predicted");
  facts.set("backend.cpu.expected_total_p90", std::int64_t{2'400'000}, "predicted");
  facts.set("backend.cpu.expected_ttft", std::int64_t{612'000},
            "predicted: queue 500 ms + load 0 ms + prefill 100 ms (30 tokens, 0 cached) + step 12 ms");
  facts.set("backend.cpu.expected_ttft_p90", std::int64_t{700'000}, "predicted");
  facts.set("backend.cpu.expected_tpot", std::int64_t{12'340}, "predicted");
  facts.set("backend.cpu.expected_tpot_p90", std::int64_t{15'100}, "predicted");
  facts.set("backend.cpu.kv_room", std::int64_t{512}, "predicted: blocks that are free now");
  facts.set("backend.cpu.load_time", std::int64_t{1'200}, "measured");
  facts.set("backend.vulkan.expected_total", std::int64_t{900'000}, "facts file");
  const std::string text = explain_text(receipt(decide(tree, facts), facts));
  EXPECT_THAT(text,
              HasSubstr("\n              predicted 1813 ms in all, 90 % within 2400 ms; 612 ms to the first "
                        "token, 90 % within 700 ms: queue 500 ms + load 0 ms + prefill 100 ms (30 "
                        "tokens, 0 cached) + step 12 ms; 12.3 ms for each further token, 90 % within "
                        "15.1 ms\n"
                        "              kv_room 512 tokens (predicted: blocks that are free now), "
                        "load_time 1.2 s\n"));
  EXPECT_THAT(text, HasSubstr("\n              expected 900 ms in all\n")) << "nobody here predicted it";
  facts.forget(facts.targets()->fact_of("cpu", TargetFact::expected_tpot));
  EXPECT_THAT(explain_text(receipt(decide(tree, facts), facts)),
              HasSubstr("expected_tpot_p90 15.1 ms (predicted)"))
      << "alone it stands with what else is known";
}

TEST(Receipt, NoTargetAndQueue) {
  const auto text = explain_text(receipt(decide(tree_of(""), Facts()), Facts()));
  EXPECT_THAT(text, HasSubstr("no target, by rule default"));
  const Tree waits = tree_of("", "default: {because: b, use: cpu, on_unavailable: queue}\n");
  const auto queued = receipt(decide(waits, Facts()), Facts());
  EXPECT_EQ(queued["outcome"], "queued");
  EXPECT_THAT(explain_text(queued), HasSubstr("no target is free; the request waits"));
}

TEST(Receipt, AnyJsonCanBeExplained) {
  for (const char* text :
       {"null", "3", "[]", "{}", "{\"rule\":3,\"facts\":{}}",
        "{\"rule\":{\"id\":[1]},\"facts\":[1,null,{\"value\":{}}]}",
        "{\"targets\":[[],{}],\"rules\":[0],\"constraints\":[\"x\"],\"target\":{\"backend\":7}}"})
    EXPECT_FALSE(explain_text(nlohmann::json::parse(text)).empty()) << text;
}

TEST(Receipt, EachAlternativeComesWithWhatIsKnownOfIt) {
  const Tree tree = tree_of("rules:\n  - {id: r, because: b, use: [vulkan, vllm, cpu]}\n");
  Facts facts = available({"cpu", "vllm"});
  facts.set("backend.vulkan.queue_waiting", std::int64_t{3}, "supervisor");
  facts.set("backend.vulkan.kv_usage", 0.5, "supervisor");
  facts.set("backend.vllm.running", std::int64_t{2}, "supervisor");
  facts.set("hardware.memory.available", std::int64_t{16} << 30, "probe");
  const auto known = [&](std::size_t i) {
    const auto target = receipt(decide(tree, facts), facts)["targets"][i];
    return target.contains("known") ? target["known"].size() : 0;
  };
  EXPECT_EQ(known(0), 2U);
  EXPECT_EQ(known(2), 0U) << "without the model's bytes the memory says nothing";
  facts.set("model.bytes", std::int64_t{4'724'464'025}, "model file");
  EXPECT_EQ(known(0), 4U);
  EXPECT_EQ(known(1), 1U) << "an upstream's memory is not known here";
  const auto text = [&] { return explain_text(receipt(decide(tree, facts), facts)); };
  EXPECT_THAT(text(),
              HasSubstr("kv_usage 0.5, queue_waiting 3, model.bytes 4.4 GiB, hardware.memory.available "
                        "16 GiB\n"));
  facts.set("hardware.gpu.discrete_count", std::int64_t{1}, "probe");
  facts.set("hardware.gpu.memory_total", std::int64_t{3000} << 20, "probe");
  EXPECT_THAT(text(), HasSubstr("model.bytes 4.4 GiB, hardware.gpu.memory_total 2.9 GiB\n"));
}

TEST(Receipt, PredictedFactsComeWithTheirBasis) {
  const Tree tree =
      tree_of("rules:\n  - {id: r, because: b, when: {fact: backend.cpu.ttft, lt: 500}, use: cpu}\n");
  Facts facts = available({"cpu"});
  facts.set("backend.cpu.decode_tps", 21.5, "measured");
  facts.set("backend.cpu.ttft", std::int64_t{400}, "predicted: roofline 20 GB/s / 1 GB",
            std::chrono::minutes(90));
  const auto said = receipt(decide(tree, facts), facts);
  EXPECT_EQ(said["rule"]["id"], "r") << "a rule that asks for it sees it";
  EXPECT_EQ(said["facts"][0]["source"], "predicted: roofline 20 GB/s / 1 GB");
  const auto& known = said["targets"][0]["known"];
  EXPECT_FALSE(known[0].contains("source"));
  EXPECT_EQ(known[1]["source"], "predicted: roofline 20 GB/s / 1 GB");
  EXPECT_THAT(explain_text(said),
              HasSubstr("decode_tps 21.5 tokens/s, ttft 400 ms (predicted: roofline 20 GB/s / 1 GB)\n"));
  EXPECT_THAT(explain_text(said),
              HasSubstr("400 ms               predicted: roofline 20 GB/s / 1 GB, 90 min ago"));
}

}  // namespace
}  // namespace flyball::policy
