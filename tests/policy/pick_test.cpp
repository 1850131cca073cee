// `pick` and `on_slo_miss`: which of a rule's available targets is taken, and how receipts and tools say it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "policy/graph.hpp"
#include "policy/pick.hpp"
#include "policy/reach.hpp"
#include "policy/simulate.hpp"
#include "policy/why_not.hpp"

namespace flyball::policy {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMs = 1000;  // microseconds

// One rule with these keys over vulkan, opencl and cpu, a rule behind it and the default.
std::string picking(const std::string& keys, const std::string& behind = "use: vllm") {
  return "schema: flyball.policy/v1\nrules:\n  - {id: r, because: b, use: [vulkan, opencl, cpu], " + keys +
         "}\n  - {id: behind, because: b, " + behind + "}\ndefault: {because: b, use: [sglang, cpu]}\n";
}
Tree pick_tree(const std::string& text) {
  auto tree = parse_policy(text, "p.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}

struct Expected {
  const char* backend;
  std::optional<std::int64_t> total_ms = {};
  std::optional<bool> meets_slo = {};
  bool loaded = false;
  bool trial_due = false;
  std::optional<std::int64_t> delay_us = {};  // to others
};
Facts expecting(const std::vector<Expected>& all) {
  Facts facts;
  for (const Expected& one : all) {
    const std::string prefix = std::string("backend.") + one.backend + ".";
    facts.set(prefix + "available", true, "test");
    facts.set(prefix + "loaded", one.loaded, "test");
    if (one.total_ms) facts.set(prefix + "expected_total", *one.total_ms * kMs, "predicted: test");
    if (one.meets_slo) facts.set(prefix + "meets_slo", *one.meets_slo, "predicted: test");
    if (one.trial_due) facts.set(prefix + "trial_due", true, "predicted: test");
    if (one.delay_us) facts.set(prefix + "expected_delay_to_others", *one.delay_us, "predicted: test");
  }
  return facts;
}

std::string said(const Decision& decision, const Facts& facts) {
  std::string out;
  for (const PickTrace& trace : decision.picks)
    out += (out.empty() ? "" : "\n") + pick_text(trace, decision, facts);
  return out;
}
std::vector<std::string> alternatives(const Decision& decision) {
  std::vector<std::string> out;
  for (const TargetTrace& trace : decision.targets)
    if (trace.verdict == Verdict::available) out.push_back(to_string(*trace.target));
  return out;
}

struct PickCase {
  const char* name;
  const char* keys;
  std::vector<Expected> facts;
  const char* chosen;
  const char* said;
};
void PrintTo(const PickCase& one, std::ostream* out) {
  *out << one.name;
}
class Picks : public testing::TestWithParam<PickCase> {};

TEST_P(Picks, TakeTheTargetAndSayWhy) {
  const Tree tree = pick_tree(picking(GetParam().keys));
  const Facts facts = expecting(GetParam().facts);
  const Decision decision = decide(tree, facts);
  ASSERT_TRUE(decision.target);
  EXPECT_EQ(to_string(*decision.target), GetParam().chosen);
  EXPECT_EQ(said(decision, facts), GetParam().said);
  std::size_t chosen = 0;
  for (const TargetTrace& trace : decision.targets)
    chosen += trace.verdict == Verdict::chosen && trace.target == decision.target;
  EXPECT_EQ(chosen, 1U);
}

// `cpu` and `cpu:latency` are one engine, and take different times.
TEST(PickByProfile, ComparesWhatIsPredictedOfTheProfile) {
  const Tree tree = pick_tree(
      "schema: flyball.policy/v1\nrules:\n  - {id: r, because: b, use: [cpu, 'cpu:latency'], pick: fastest}\n"
      "default: {because: b, use: cpu}\n");
  Facts facts = expecting({{"cpu", 900}});
  const FactId total = *find_fact("backend.cpu.expected_total");
  facts.set_of_profile("latency", total, FactValue(300 * kMs), "predicted: test");
  const Decision decision = decide(tree, facts);
  EXPECT_EQ(to_string(*decision.target), "cpu:latency");
  EXPECT_EQ(said(decision, facts),
            "cpu:latency: fastest, 300 ms expected in all (cpu 900 ms; within 10 % nothing else)");
  const json rows = receipt(decision, facts)["targets"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows[0]["known"].dump(), HasSubstr("900000"));
  EXPECT_THAT(rows[1]["known"].dump(), HasSubstr("300000"));
  facts.set_of_profile("latency", total, std::nullopt, "");
  EXPECT_EQ(to_string(*decide(tree, facts).target), "cpu")
      << "unknown with the profile, and no more the target's";
  facts.set(total, std::int64_t{100}, "override");
  EXPECT_EQ(std::get<std::int64_t>(facts.get(total, "latency")->value), 100) << "it holds with every profile";
}

constexpr const char* kFastest = "pick: fastest";
constexpr const char* kSlo = "pick: meets_slo";
constexpr const char* kSloFastest = "pick: meets_slo, on_slo_miss: fastest";
constexpr const char* kSloFirst = "pick: meets_slo, on_slo_miss: first";

INSTANTIATE_TEST_SUITE_P(
    Table, Picks,
    testing::Values(
        PickCase{"first_is_version_1", "pick: first", {{"opencl", 900}, {"cpu", 5}}, "opencl", ""},
        PickCase{"the_fastest",
                 kFastest,
                 {{"vulkan", 1180}, {"cpu", 412}},
                 "cpu",
                 "cpu: fastest, 412 ms expected in all (vulkan 1180 ms; within 10 % nothing else)"},
        PickCase{
            "without_a_prediction_none_is_the_fastest",
            kFastest,
            {{"vulkan"}, {"opencl", 9}, {"cpu"}},
            "opencl",
            "opencl: fastest, 9 ms expected in all (vulkan not predicted, cpu not predicted; within 10 % "
            "nothing else)"},
        PickCase{"without_any_prediction_the_first",
                 kFastest,
                 {{"opencl"}, {"cpu", {}, {}, true}},
                 "opencl",
                 "opencl: first listed, the time of none is predicted"},
        PickCase{
            "of_near_equals_the_loaded_one",
            kFastest,
            {{"vulkan", 105}, {"opencl", 100}, {"cpu", 110, {}, true}},
            "cpu",
            "cpu: loaded, within 10 % of the fastest, 110 ms expected in all (vulkan 105 ms, opencl 100 ms; "
            "within 10 % vulkan, opencl)"},
        PickCase{"a_loaded_one_beyond_the_margin_is_not_near",
                 kFastest,
                 {{"opencl", 100}, {"cpu", 111, {}, true}},
                 "opencl",
                 "opencl: fastest, 100 ms expected in all (cpu 111 ms; within 10 % nothing else)"},
        PickCase{
            "of_near_equals_the_first_listed",
            kFastest,
            {{"vulkan", 110}, {"opencl", 100}},
            "vulkan",
            "vulkan: listed first, within 10 % of the fastest, 110 ms expected in all (opencl 100 ms; within "
            "10 % opencl)"},
        PickCase{
            "of_loaded_near_equals_the_first_listed",
            kFastest,
            {{"vulkan", 100}, {"opencl", 109, {}, true}, {"cpu", 108, {}, true}},
            "opencl",
            "opencl: loaded, within 10 % of the fastest, 109 ms expected in all (vulkan 100 ms, cpu 108 ms; "
            "within 10 % vulkan, cpu)"},
        PickCase{"the_only_one",
                 kFastest,
                 {{"cpu", 2000}},
                 "cpu",
                 "cpu: fastest, 2000 ms expected in all (no other is available)"},
        PickCase{"a_time_below_0_is_no_prediction",
                 kFastest,
                 {{"vulkan", -5}, {"cpu", 3}},
                 "cpu",
                 "cpu: fastest, 3 ms expected in all (vulkan not predicted; within 10 % nothing else)"},
        PickCase{"times_without_end_are_compared",
                 kFastest,
                 {{"vulkan", INT64_MAX / kMs}, {"cpu", INT64_MAX / kMs - 1}},
                 "vulkan",
                 "vulkan: listed first, within 10 % of the fastest, 9223372036854775 ms expected in all (cpu "
                 "9223372036854774 ms; within 10 % cpu)"},
        PickCase{
            "the_first_that_meets_the_slo",
            kSlo,
            {{"vulkan", 300, false}, {"opencl", 900}, {"cpu", 800, true}},
            "cpu",
            "cpu: first that meets the SLO, 800 ms in all (vulkan does not, 300 ms in all; opencl not known, "
            "900 ms in all)"},
        PickCase{"listed_before_counts_more_than_fast",
                 kSlo,
                 {{"vulkan", 900, true}, {"cpu", 100, true}},
                 "vulkan",
                 "vulkan: first that meets the SLO, 900 ms in all (cpu does, too, 100 ms in all)"},
        PickCase{"without_any_slo_the_first",
                 kSlo,
                 {{"opencl", 900}, {"cpu", 100}},
                 "opencl",
                 "opencl: first listed, of none it is known whether it meets the SLO"},
        PickCase{"without_any_slo_the_fastest_that_a_miss_would_take",
                 kSloFastest,
                 {{"opencl", 900}, {"cpu", 100}},
                 "cpu",
                 "cpu: fastest, 100 ms expected in all (opencl 900 ms; within 10 % nothing else)"},
        PickCase{"without_any_slo_or_time_the_first",
                 kSloFastest,
                 {{"opencl"}, {"cpu"}},
                 "opencl",
                 "opencl: first listed, the time of none is predicted"},
        PickCase{"without_any_slo_the_first_that_a_miss_would_take",
                 kSloFirst,
                 {{"opencl", 900}, {"cpu", 100}},
                 "opencl",
                 "opencl: first listed, of none it is known whether it meets the SLO"},
        PickCase{"a_miss_goes_on",
                 kSlo,
                 {{"vulkan", 900, false}, {"cpu", 100}, {"vllm", 50}},
                 "vllm",
                 "nothing: no target meets the SLO (vulkan does not, 900 ms in all; cpu not known, 100 ms in "
                 "all), "
                 "on to the next rule"},
        PickCase{
            "a_miss_takes_the_fastest",
            kSloFastest,
            {{"vulkan", 900, false}, {"cpu", 100, false}, {"vllm", 50}},
            "cpu",
            "cpu: no target meets the SLO (vulkan does not, 900 ms in all; cpu does not, 100 ms in all), "
            "fastest, 100 ms expected in all (vulkan 900 ms; within 10 % nothing else)"},
        PickCase{
            "a_miss_takes_the_first_where_no_time_is_known",
            kSloFastest,
            {{"vulkan", {}, false}, {"cpu", {}, false}},
            "vulkan",
            "vulkan: no target meets the SLO (vulkan does not; cpu does not), first listed, the time of none "
            "is predicted"},
        PickCase{
            "a_miss_takes_the_first",
            kSloFirst,
            {{"vulkan", 900, false}, {"cpu", 100}, {"vllm", 50}},
            "vulkan",
            "vulkan: no target meets the SLO (vulkan does not, 900 ms in all; cpu not known, 100 ms in all), "
            "first listed"}),
    [](const auto& row) { return std::string(row.param.name); });

// An engine may have become faster than its figures: it has no `meets_slo` for a while.
TEST(PickBySlo, TakesTheFirstWhereItIsUnknownWhetherAnSloIsMet) {
  const Tree tree = pick_tree(picking(kSloFastest));
  for (const char* slo : {"app.slo.ttft", "app.slo.tpot", "app.slo.deadline"}) {
    Facts facts = expecting({{"opencl", 900}, {"cpu", 100}});
    facts.set(slo, std::int64_t{50}, "manifest");
    const Decision decision = decide(tree, facts);
    EXPECT_EQ(to_string(*decision.target), "opencl") << slo;
    EXPECT_EQ(said(decision, facts), "opencl: first listed, of none it is known whether it meets the SLO");
  }
}

// ---- considerate ------------------------------------------------------------------------------------------

struct ConsiderateCase {
  const char* name;
  std::vector<Expected> facts;
  std::optional<std::int64_t> deadline_ms;
  const char* chosen;
  const char* said;
};
void PrintTo(const ConsiderateCase& one, std::ostream* out) {
  *out << one.name;
}
class Considerate : public testing::TestWithParam<ConsiderateCase> {};

constexpr const char* kConsiderate = "pick: considerate";

Expected delaying(const char* backend, std::optional<std::int64_t> delay_us,
                  std::optional<std::int64_t> total_ms, bool trial_due = false) {
  return {backend, total_ms, {}, false, trial_due, delay_us};
}

TEST_P(Considerate, TakesTheTargetThatDelaysOthersLeast) {
  const Tree tree = pick_tree(picking(kConsiderate));
  Facts facts = expecting(GetParam().facts);
  if (GetParam().deadline_ms) facts.set("app.slo.deadline", *GetParam().deadline_ms, "manifest");
  const Decision decision = decide(tree, facts);
  ASSERT_TRUE(decision.target);
  EXPECT_EQ(to_string(*decision.target), GetParam().chosen);
  EXPECT_EQ(said(decision, facts), GetParam().said);
}

constexpr std::optional<std::int64_t> kUnknownTime;

INSTANTIATE_TEST_SUITE_P(
    Table, Considerate,
    testing::Values(
        ConsiderateCase{"the_least_delay_however_slow",
                        {delaying("vulkan", 900'000, 412), delaying("cpu", 40'000, 1180)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 40 ms, 1180 ms in all (vulkan: 900 ms, 412 ms)"},
        ConsiderateCase{"among_near_delays_the_fastest",
                        {delaying("vulkan", 108'000, 900), delaying("opencl", 100'000, 1200),
                         delaying("cpu", 110'000, 412)},
                        {},
                        "cpu",
                        "cpu: fastest within 10 % or 1 ms of the least delay to others, by 110 ms, 412 ms in "
                        "all (vulkan: 108 ms, 900 ms; opencl: 100 ms, 1200 ms)"},
        ConsiderateCase{"beyond_the_margin_speed_counts_nothing",
                        {delaying("opencl", 100'000, 1200), delaying("cpu", 110'001, 412)},
                        {},
                        "opencl",
                        "opencl: delays others least, by 100 ms, 1200 ms in all (cpu: 110 ms, 412 ms)"},
        ConsiderateCase{"microseconds_are_equal_to_nothing",
                        {delaying("opencl", 0, 1200), delaying("cpu", 3, 412)},
                        {},
                        "cpu",
                        "cpu: fastest within 10 % or 1 ms of the least delay to others, by 0.003 ms, 412 ms "
                        "in all (opencl: 0 ms, 1200 ms)"},
        ConsiderateCase{"more_than_a_millisecond_is_not",
                        {delaying("opencl", 0, 1200), delaying("cpu", 1'001, 412)},
                        {},
                        "opencl",
                        "opencl: delays others least, by 0 ms, 1200 ms in all (cpu: 1 ms, 412 ms)"},
        ConsiderateCase{"of_equals_the_first_listed",
                        {delaying("opencl", 0, 412), delaying("cpu", 0, 412)},
                        {},
                        "opencl",
                        "opencl: delays others least, by 0 ms, 412 ms in all (cpu: 0 ms, 412 ms)"},
        ConsiderateCase{"an_unknown_delay_is_never_the_least",
                        {delaying("vulkan", {}, 5), delaying("cpu", 700'000, 1180)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 700 ms, 1180 ms in all (vulkan: delay not predicted, "
                        "5 ms)"},
        ConsiderateCase{"a_delay_below_0_is_no_prediction",
                        {delaying("vulkan", -5, 5), delaying("cpu", 700'000, 1180)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 700 ms, 1180 ms in all (vulkan: delay not predicted, "
                        "5 ms)"},
        ConsiderateCase{"a_known_time_before_an_unknown_one",
                        {delaying("vulkan", 0, kUnknownTime), delaying("cpu", 0, 1180)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 0 ms, 1180 ms in all (vulkan: 0 ms, not predicted)"},
        ConsiderateCase{"without_any_delay_the_first",
                        {delaying("opencl", {}, 1200), delaying("cpu", {}, 412)},
                        {},
                        "opencl",
                        "opencl: first listed, no delay to others is predicted (cpu: delay not predicted, "
                        "412 ms)"},
        ConsiderateCase{"the_only_one",
                        {delaying("cpu", 2'000, 412)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 2 ms, 412 ms in all (no other is available)"},
        ConsiderateCase{"never_past_the_deadline_while_another_holds_it",
                        {delaying("vulkan", 900'000, 1000), delaying("cpu", 40'000, 1180)},
                        1000,
                        "vulkan",
                        "vulkan: delays others least, by 900 ms, 1000 ms in all (cpu: 40 ms, 1180 ms, past "
                        "the deadline)"},
        ConsiderateCase{"the_deadline_counts_before_an_unknown_delay",
                        {delaying("opencl", 0, 1180), delaying("cpu", {}, 1000)},
                        1000,
                        "cpu",
                        "cpu: first listed, no delay to others is predicted (opencl: 0 ms, 1180 ms, past the "
                        "deadline)"},
        ConsiderateCase{"where_none_holds_the_deadline_the_least_delay",
                        {delaying("vulkan", 900'000, 1001), delaying("cpu", 40'000, 1180)},
                        1000,
                        "cpu",
                        "cpu: delays others least, by 40 ms, 1180 ms in all (vulkan: 900 ms, 1001 ms)"},
        ConsiderateCase{"a_deadline_without_end_is_held",
                        {delaying("vulkan", 900'000, 1001), delaying("cpu", 40'000, 1180)},
                        INT64_MAX,
                        "cpu",
                        "cpu: delays others least, by 40 ms, 1180 ms in all (vulkan: 900 ms, 1001 ms)"},
        ConsiderateCase{"delays_without_end_are_compared",
                        {delaying("vulkan", INT64_MAX, 1), delaying("cpu", 0, 1180)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 0 ms, 1180 ms in all (vulkan: 9223372036854776 ms, "
                        "1 ms)"},
        ConsiderateCase{"no_trial_where_the_delay_is_known_to_be_more",
                        {delaying("opencl", 40'000, {}, true), delaying("cpu", 0, 213)},
                        {},
                        "cpu",
                        "cpu: delays others least, by 0 ms, 213 ms in all (opencl: 40 ms, not predicted)"},
        ConsiderateCase{"no_trial_past_the_deadline",
                        {delaying("opencl", {}, 1001, true), delaying("cpu", 0, 213)},
                        1000,
                        "cpu",
                        "cpu: delays others least, by 0 ms, 213 ms in all (opencl: delay not predicted, 1001 "
                        "ms, past the deadline)"},
        ConsiderateCase{
            "a_trial_of_unknown_delay_goes_before",
            {delaying("opencl", {}, {}, true), delaying("cpu", 0, 213)},
            {},
            "opencl",
            "opencl: tried, listed before cpu and not yet seen with this model (cpu: delays "
            "others least, by 0 ms, 213 ms in all (opencl: delay not predicted, not predicted))"}),
    [](const auto& row) { return std::string(row.param.name); });

// A profile may have the prompts of others go first.
TEST(PickConsiderate, ComparesWhatIsPredictedOfTheProfile) {
  const Tree tree = pick_tree(
      "schema: flyball.policy/v1\nprofiles: {night: {because: b, place: behind}}\n"
      "rules: [{id: r, because: b, use: [cpu, 'cpu:night'], pick: considerate}]\n"
      "default: {because: b, use: cpu}\n");
  Facts facts = expecting({delaying("cpu", 900'000, 412)});
  facts.set_of_profile("night", *find_fact("backend.cpu.expected_delay_to_others"), FactValue(30 * kMs),
                       "predicted: test");
  const Decision decision = decide(tree, facts);
  EXPECT_EQ(to_string(*decision.target), "cpu:night");
  EXPECT_EQ(decision.picks[0].picked.by, Picked::By::least_delay);
}

TEST(PickConsiderate, AReceiptShowsBothNumbers) {
  const Tree tree = pick_tree(picking(kConsiderate));
  const Facts facts = expecting({delaying("vulkan", 900'000, 412), delaying("cpu", 40'000, 1180)});
  const Decision decision = decide(tree, facts);
  const json made = receipt(decision, facts);
  EXPECT_EQ(made["picks"][0]["pick"], "considerate");
  EXPECT_EQ(made["picks"][0]["by"], "least_delay");
  EXPECT_EQ(made["picks"][0]["target"], "cpu");
  const std::string text = explain_text(made);
  EXPECT_THAT(text, HasSubstr("picked   cpu: delays others least, by 40 ms, 1180 ms in all"));
  EXPECT_THAT(text, HasSubstr("predicted 1180 ms in all, test; 40 ms of delay to others, test"));
  EXPECT_EQ(receipt(decide(tree, expecting({delaying("opencl", 0, 900), delaying("cpu", 9, 412)})),
                    facts)["picks"][0]["by"],
            "near_delay");
}

// The fact costs time: it is computed for those trees alone.
TEST(PickConsiderate, ATreeSaysWhetherItAsksForTheDelay) {
  const auto asks = [](const std::string& keys, const std::string& behind = "use: vllm") {
    return pick_tree(picking(keys, behind)).program.asks_delay_to_others;
  };
  EXPECT_TRUE(asks(kConsiderate));
  EXPECT_TRUE(asks(kFastest, "use: vllm, pick: considerate"));
  EXPECT_TRUE(asks("when: {fact: backend.cpu.expected_delay_to_others, gt: 5}"));
  EXPECT_TRUE(asks("when: {not: {fact: backend.opencl.expected_delay_to_others, exists: true}}"));
  EXPECT_FALSE(asks(kFastest));
  EXPECT_FALSE(asks("when: {fact: backend.cpu.expected_total, gt: 5}, pick: meets_slo"));
  EXPECT_TRUE(pick_tree("schema: flyball.policy/v1\n"
                        "default: {because: b, use: [vulkan, cpu], pick: considerate}\n")
                  .program.asks_delay_to_others);
}

TEST(PickConsiderate, TheSchemaHasIt) {
  const json schema = json::parse(policy_schema());
  EXPECT_THAT(schema.dump(), HasSubstr(R"(["first","fastest","meets_slo","considerate"])"));
}

constexpr std::optional<std::int64_t> kNoTime;
constexpr std::optional<bool> kNotKnown;

INSTANTIATE_TEST_SUITE_P(
    Trials, Picks,
    testing::Values(
        PickCase{"first_tries_nothing",
                 "pick: first",
                 {{"opencl", 9}, {"cpu", 5, kNotKnown, false, true}},
                 "opencl",
                 ""},
        PickCase{"before_the_fastest",
                 kFastest,
                 {{"opencl", 900, kNotKnown, false, true}, {"cpu", 213}},
                 "opencl",
                 "opencl: tried, listed before cpu and not yet seen with this model (cpu: fastest, 213 ms "
                 "expected "
                 "in all (opencl 900 ms; within 10 % nothing else))"},
        PickCase{"without_any_prediction_of_it",
                 kFastest,
                 {{"opencl", kNoTime, kNotKnown, false, true}, {"cpu", 213}},
                 "opencl",
                 "opencl: tried, listed before cpu and not yet seen with this model (cpu: fastest, 213 ms "
                 "expected "
                 "in all (opencl not predicted; within 10 % nothing else))"},
        PickCase{
            "the_first_of_two",
            kFastest,
            {{"vulkan", 800, kNotKnown, false, true}, {"opencl", 900, kNotKnown, false, true}, {"cpu", 213}},
            "vulkan",
            "vulkan: tried, listed before cpu and not yet seen with this model (cpu: fastest, 213 ms "
            "expected "
            "in all (vulkan 800 ms, opencl 900 ms; within 10 % nothing else))"},
        PickCase{"not_behind_the_fastest",
                 kFastest,
                 {{"opencl", 100}, {"cpu", 213, kNotKnown, false, true}},
                 "opencl",
                 "opencl: fastest, 100 ms expected in all (cpu 213 ms; within 10 % nothing else)"},
        PickCase{"the_fastest_is_no_trial",
                 kFastest,
                 {{"opencl", 100, kNotKnown, false, true}, {"cpu", 213}},
                 "opencl",
                 "opencl: fastest, 100 ms expected in all (cpu 213 ms; within 10 % nothing else)"},
        PickCase{"before_the_first_that_meets_the_slo",
                 kSlo,
                 {{"opencl", kNoTime, kNotKnown, false, true}, {"cpu", 800, true}},
                 "opencl",
                 "opencl: tried, listed before cpu and not yet seen with this model (cpu: first that meets "
                 "the SLO, "
                 "800 ms in all (opencl not known))"},
        PickCase{"before_the_next_rule",
                 kSlo,
                 {{"opencl", 900, kNotKnown, false, true}, {"cpu", 800, false}, {"vllm", 50}},
                 "opencl",
                 "opencl: tried, not yet seen with this model (nothing: no target meets the SLO (opencl not "
                 "known, "
                 "900 ms in all; cpu does not, 800 ms in all), on to the next rule)"}),
    [](const auto& row) { return std::string(row.param.name); });

// An upstream is compared as engines are, and one with a prior may be the fastest.
TEST(Pick, AnUpstreamIsATargetLikeAnyOther) {
  const Tree tree = pick_tree(
      "schema: flyball.policy/v1\nrules: [{id: r, because: b, use: [vllm, sglang, cpu], pick: fastest}]\n"
      "default: {because: b, use: cpu}\n");
  EXPECT_EQ(to_string(*decide(tree, expecting({{"vllm", 900}, {"sglang", 50}, {"cpu", 100}})).target),
            "sglang");
  const Facts untried = expecting({{"vllm", 900, kNotKnown, false, true}, {"sglang", 50}, {"cpu", 100}});
  const Decision decision = decide(tree, untried);
  EXPECT_EQ(to_string(*decision.target), "vllm");
  EXPECT_EQ(receipt(decision, untried)["picks"][0]["by"], "trial");
}

TEST(Pick, WhatIsTriedCanBeUsed) {
  const Tree tree = pick_tree(
      "schema: flyball.policy/v1\n"
      "constraints: {stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n"
      "rules: [{id: r, because: b, use: [vulkan, vllm, cpu], pick: fastest}]\n"
      "default: {because: b, use: cpu}\n");
  Facts facts = expecting({{"vllm", 10, kNotKnown, false, true}, {"cpu", 100}});
  facts.set("app.privacy", std::string("local_only"), "test");
  facts.set("backend.vulkan.trial_due", true, "predicted: test");
  EXPECT_EQ(to_string(*decide(tree, facts).target), "cpu");
}

TEST(Pick, WhatCannotBeUsedIsNotPicked) {
  const Tree tree = pick_tree(
      "schema: flyball.policy/v1\n"
      "constraints: {stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}}\n"
      "rules: [{id: r, because: b, use: [vulkan, vllm, cpu], pick: fastest}]\n"
      "default: {because: b, use: cpu}\n");
  Facts facts = expecting({{"vllm", 10}, {"cpu", 100}});
  facts.set("app.privacy", std::string("local_only"), "test");
  facts.set("backend.vulkan.expected_total", 1 * kMs, "predicted: test");
  const Decision decision = decide(tree, facts);
  EXPECT_EQ(to_string(*decision.target), "cpu");
  EXPECT_EQ(said(decision, facts), "cpu: fastest, 100 ms expected in all (no other is available)");
}

TEST(Pick, TheOthersStayAlternativesInOrder) {
  const Tree tree = pick_tree(picking(kFastest));
  const Facts facts = expecting({{"vulkan", 300}, {"opencl", 200}, {"cpu", 100}, {"sglang", 1}});
  const Decision decision = decide(tree, facts);
  EXPECT_EQ(to_string(*decision.target), "cpu");
  EXPECT_THAT(alternatives(decision), ElementsAre("vulkan", "opencl", "sglang"));
}

// What missed the SLO is an alternative for the rule that decides then, and no reason to refuse less.
TEST(Pick, TargetsThatMissedStayAlternatives) {
  const std::vector<Expected> slow = {{"vulkan", 900, false}, {"cpu", 800, false}};
  const Tree tree = pick_tree(picking(kSlo));
  auto with_server = slow;
  with_server.push_back({"vllm", 50});
  const Decision decision = decide(tree, expecting(with_server));
  EXPECT_EQ(to_string(*decision.target), "vllm");
  EXPECT_EQ(decision.rule->id, "behind");
  EXPECT_THAT(alternatives(decision), ElementsAre("vulkan", "cpu"));
  EXPECT_EQ(to_string(*decide(tree, expecting(slow)).target), "cpu") << "by the default";
  const Tree waits = pick_tree(picking(kSlo, "use: vllm, on_unavailable: queue"));
  EXPECT_TRUE(decide(waits, expecting(slow)).queue);
}

TEST(OnCold, IsReadOfRulesAndOfTheDefault) {
  const auto tree = parse_policy(
      "schema: flyball.policy/v1\n"
      "rules: [{id: a, because: b, use: cpu, on_cold: start_elsewhere}, {id: c, because: d, use: cpu}]\n"
      "default: {because: b, use: cpu, on_cold: start_elsewhere}\n",
      "p.yaml");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->rules[0].on_cold, OnCold::start_elsewhere);
  EXPECT_EQ(tree->rules[1].on_cold, OnCold::wait);
  EXPECT_EQ(tree->fallback.on_cold, OnCold::start_elsewhere);
}

// on_unavailable is for targets that cannot be used; those that would be late are on_slo_miss's.
TEST(Pick, AMissGoesOnWhateverIsSaidOfUnavailableTargets) {
  const Tree tree = pick_tree(picking("pick: meets_slo, on_unavailable: fail"));
  EXPECT_EQ(decide(tree, expecting({{"cpu", 9, false}, {"vllm", 50}})).rule->id, "behind");
  EXPECT_EQ(decide(tree, expecting({{"vllm", 50}})).target, nullptr);
  EXPECT_THAT(lint(tree), IsEmpty()) << "the rule behind it is reached";
}

TEST(Pick, TheDefaultPicksToo) {
  const std::string head = "schema: flyball.policy/v1\ndefault: {because: b, use: [vulkan, cpu], ";
  const Facts late = expecting({{"vulkan", 900, false}, {"cpu", 100, false}});
  EXPECT_EQ(to_string(*decide(pick_tree(head + "pick: fastest}\n"), late).target), "cpu");
  EXPECT_EQ(to_string(*decide(pick_tree(head + "pick: meets_slo}\n"), late).target), "cpu") << "the fastest";
  EXPECT_EQ(to_string(*decide(pick_tree(head + "pick: meets_slo, on_slo_miss: first}\n"), late).target),
            "vulkan");
}

TEST(Pick, ReceiptsSayIt) {
  const Tree tree = pick_tree(picking(kSlo, "use: [vllm, cpu], pick: fastest"));
  Facts facts = expecting({{"vulkan", 1900, false}, {"cpu", 1180}, {"vllm", 412}});
  facts.set("backend.vulkan.expected_ttft", 700 * kMs, "predicted: test");
  const json made = receipt(decide(tree, facts), facts);
  ASSERT_EQ(made["picks"].size(), 2U);
  EXPECT_EQ(made["picks"][0],
            (json{{"rule", "r"},
                  {"pick", "meets_slo"},
                  {"target", nullptr},
                  {"by", "nothing"},
                  {"slo_missed", true},
                  {"margin_percent", 10},
                  {"text",
                   "nothing: no target meets the SLO (vulkan does not, 700 ms to the first token, "
                   "1900 ms in all; cpu not known, 1180 ms in all), on to the next rule"}}));
  EXPECT_EQ(made["picks"][1]["target"], "vllm");
  EXPECT_EQ(made["picks"][1]["by"], "fastest");
  const std::string text = explain_text(made);
  EXPECT_THAT(text, HasSubstr("vllm, by rule behind (p.yaml:4)\n  because  b\n"
                              "  passed   rule r, nothing: no target meets the SLO (vulkan does not"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\n  picked   vllm: fastest, 412 ms expected in all (cpu 1180 ms; within 10 % nothing else)\n"));
  EXPECT_EQ(receipt(decide(tree, facts), facts).dump(), made.dump());
}

TEST(Pick, ReceiptsWithoutPicksAreThoseOfVersion1) {
  const Tree tree = pick_tree(picking("pick: first"));
  const Facts facts = expecting({{"vulkan", 300}, {"cpu", 100}});
  json made = receipt(decide(tree, facts), facts);
  EXPECT_FALSE(made.contains("picks"));
  EXPECT_THAT(explain_text(made), testing::Not(HasSubstr("picked")));
  made["picks"] = {nullptr, 3, json::object(), {{"rule", "r"}}};
  EXPECT_THAT(explain_text(made), HasSubstr("picked"));
}

TEST(Pick, ADecisionIntoUsedStorageKeepsNothing) {
  const Tree tree = pick_tree(picking(kSloFastest));
  Decision decision;
  decide(tree, expecting({{"vulkan", 300, false}, {"cpu", 100, false}}), decision);
  EXPECT_EQ(decision.picks.size(), 1U);
  decide(tree, expecting({{"vllm", 100}}), decision);
  EXPECT_TRUE(decision.picks.empty());
}

TEST(Pick, WhyNotNamesThePick) {
  const Tree tree = pick_tree(picking(kFastest));
  const Facts facts = expecting({{"vulkan", 1180}, {"cpu", 412}, {"sglang"}});
  const Decision decision = decide(tree, facts);
  const json answer = why_not(decision, facts, Target{"vulkan", ""});
  EXPECT_EQ(answer["places"][0]["status"], "passed");
  EXPECT_EQ(answer["places"][0]["reason"],
            "picked cpu: fastest, 412 ms expected in all (vulkan 1180 ms; within 10 % nothing else)");
  EXPECT_EQ(why_not(decision, facts, Target{"cpu", ""})["places"][0]["status"], "chosen");
}

TEST(Pick, TheGraphShowsIt) {
  const Tree tree = pick_tree(picking(kSlo));
  EXPECT_THAT(to_dot(tree, {}), HasSubstr("[label=\"r\\nalways\\npick meets_slo, else next\""));
  EXPECT_THAT(to_svg(tree, {}), HasSubstr(">vulkan, opencl, cpu (pick meets_slo, else next)</text>"));
}

TEST(Pick, SimulationsGoByIt) {
  const Tree tree = pick_tree(picking(kFastest));
  Simulation simulation(tree);
  const Facts facts = expecting({{"vulkan", 300}, {"cpu", 100}});
  simulation.add({"app", "m", "r", "vulkan", "", -1, facts});
  EXPECT_EQ(simulation.totals().moved, 1U);
  EXPECT_EQ(simulation.report()["moves"][0]["to"]["target"], "cpu");
}

struct WrongPick {
  const char* name;
  std::string text;
  const char* message;
  const char* where;
};
void PrintTo(const WrongPick& one, std::ostream* out) {
  *out << one.name;
}
class WrongPicks : public testing::TestWithParam<WrongPick> {};

TEST_P(WrongPicks, AreNamedWithTheirPlace) {
  const auto tree = parse_policy(GetParam().text, "p.yaml");
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(tree.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(tree.error().where, GetParam().where);
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongPicks,
    testing::Values(
        WrongPick{"unknown_pick", picking("pick: fast"), "expected first, fastest, meets_slo or considerate",
                  "p.yaml:3:59"},
        WrongPick{"a_miss_without_slo", picking("pick: fastest, on_slo_miss: first"),
                  "on_slo_miss without `pick: meets_slo`", "p.yaml:3:81"},
        WrongPick{"a_miss_without_pick", picking("on_slo_miss: next"),
                  "on_slo_miss without `pick: meets_slo`", "p.yaml:3:66"},
        WrongPick{"a_default_has_no_next",
                  "schema: flyball.policy/v1\n"
                  "default: {because: b, use: cpu, pick: meets_slo, on_slo_miss: next}\n",
                  "expected fastest or first, got \"next\"", "p.yaml:2:63"},
        WrongPick{"an_unknown_on_cold", picking("on_cold: start"), "expected wait or start_elsewhere",
                  "p.yaml:3:62"},
        WrongPick{"a_start_beside_rules",
                  "schema: flyball.policy/v1\n"
                  "rules: [{id: a, because: b, on_cold: wait, rules: [{id: c, because: d, use: cpu}]}]\n"
                  "default: {because: b, use: cpu}\n",
                  "on_cold belongs to a rule with `use`", "p.yaml:2:38"},
        WrongPick{"a_pick_beside_rules",
                  "schema: flyball.policy/v1\n"
                  "rules: [{id: a, because: b, pick: fastest, rules: [{id: c, because: d, use: cpu}]}]\n"
                  "default: {because: b, use: cpu}\n",
                  "rule \"a\": pick belongs to a rule with `use`", "p.yaml:2:35"}),
    [](const auto& row) { return std::string(row.param.name); });

// ---- proofs -----------------------------------------------------------------------------------------------

TEST(Pick, EveryTargetOfAPickCanBeTheOne) {
  for (const char* keys : {kFastest, kSlo, kSloFastest, kSloFirst, kConsiderate}) {
    const Tree tree = pick_tree(picking(keys));
    for (const LintFinding& finding : dead_ends(tree))
      EXPECT_THAT(finding.message, testing::Not(HasSubstr("\"r\""))) << keys;
    for (const Target& target : tree.rules[0].use) {
      const ReachAnswer answer = reach(tree, tree.rules[0], target, Role::chosen, {});
      ASSERT_EQ(answer.reach, Reach::possible) << keys << " " << to_string(target);
      EXPECT_EQ(decide(tree, answer.facts).target, &target) << keys;
    }
  }
}

// Where every target must be usable, predictions alone decide.
TEST(Pick, PredictionsAreFoundThatDecide) {
  const std::string all =
      "when: {all: [{fact: backend.vulkan.available, eq: true}, {fact: backend.opencl.available, eq: true}, "
      "{fact: backend.cpu.available, eq: true}, {fact: backend.vulkan.expected_total, gt: 500}, "
      "{fact: backend.cpu.meets_slo, eq: false}]}, ";
  for (const char* keys : {kFastest, kSloFastest, kConsiderate}) {
    const Tree tree = pick_tree(picking(all + keys));
    for (const Target& target : tree.rules[0].use) {
      const ReachAnswer answer = reach(tree, tree.rules[0], target, Role::chosen, {});
      ASSERT_EQ(answer.reach, Reach::possible) << keys << " " << to_string(target);
      EXPECT_EQ(decide(tree, answer.facts).target, &target) << keys;
    }
  }
  const Tree misses = pick_tree(picking(all + kSlo));
  const auto reached = [&](const std::vector<Condition>& assumptions) {
    return reach(misses, misses.rules[0], misses.rules[0].use[2], Role::chosen, assumptions);
  };
  EXPECT_EQ(reached({*assumption("backend.cpu.trial_due=false")}).reach, Reach::never)
      << "it does not meet the SLO";
  const ReachAnswer tried = reached({});
  ASSERT_EQ(tried.reach, Reach::possible);
  EXPECT_EQ(decide(misses, tried.facts).picks[0].picked.by, Picked::By::trial);
}

// The facts of a profile may make it the fastest or the most considerate, wherever it is listed.
TEST(Pick, ASecondProfileOfAnEngineIsNoDeadEnd) {
  const auto found = [](const std::string& use, const std::string& pick) {
    const Tree tree = pick_tree(
        "schema: flyball.policy/v1\nprofiles: {night: {because: b, place: behind}}\n"
        "rules: [{id: r, because: b, use: " +
        use + ", pick: " + pick + "}]\ndefault: {because: b, use: vulkan}\n");
    std::vector<std::string> out;
    for (const LintFinding& finding : dead_ends(tree)) out.push_back(finding.message);
    return out;
  };
  for (const char* pick : {"fastest", "considerate"}) {
    EXPECT_THAT(found("[cpu, 'cpu:night']", pick), ElementsAre(HasSubstr("1 target is not settled"))) << pick;
    EXPECT_THAT(found("[cpu, cpu]", pick),
                testing::Contains(HasSubstr("target cpu of rule \"r\" is never chosen")))
        << pick;
  }
}

// A rule that misses the SLO lets through to what stands behind it, although its engines are there.
TEST(Pick, AProofSeesWhatAMissLeadsTo) {
  const std::vector<Condition> here = {*assumption("backend.cpu.available=true")};
  const auto proof_of = [&](const std::string& keys) {
    const Tree tree =
        pick_tree("schema: flyball.policy/v1\nrules:\n  - {id: r, because: b, use: cpu, " + keys +
                  "}\n  - {id: behind, because: b, use: vllm}\ndefault: {because: b, use: cpu, "
                  "on_unavailable: fail}\n");
    const Proof proof = prove_never(tree, "remote", here);
    for (const Proof::Place& open : proof.open)
      EXPECT_EQ(to_string(*decide(tree, open.answer.facts).target), "vllm");
    return proof.holds();
  };
  EXPECT_TRUE(proof_of("pick: first"));
  EXPECT_TRUE(proof_of(kFastest));
  EXPECT_FALSE(proof_of(kSlo));
  EXPECT_TRUE(proof_of(kSloFastest));
}

}  // namespace
}  // namespace flyball::policy
