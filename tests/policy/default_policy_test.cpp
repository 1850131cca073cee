// The shipped policy on machines people have: what each gets from this release, and what it gets once the
// engines and upstreams of the later releases are there.
#include <gtest/gtest.h>

#include "config/config.hpp"
#include "policy/decide.hpp"

namespace flyball::policy {
namespace {

struct Machine {
  bool unified = false;
  std::int64_t discrete = 0, integrated = 0, nodes = 1;
  const char* vendor = "none";
};
struct Load {
  const char* kind = "chat";
  std::optional<std::int64_t> concurrency = {}, prompt_tokens = {}, shared_prefix = {};
  const char* privacy = "any";
  std::optional<bool> moe = {}, fixed_critical = {};
  std::optional<std::int64_t> slo_ttft = {};  // milliseconds
};

const Machine kLaptop{};  // no GPU that computes
const Machine kApu{.unified = true, .integrated = 1, .vendor = "amd"};
const Machine kRtx4090{.discrete = 1, .integrated = 1, .vendor = "nvidia"};
const Machine kRadeon{.discrete = 1, .vendor = "amd"};
const Machine kTwo3090{.discrete = 2, .vendor = "nvidia"};
const Machine kFour3090{.discrete = 4, .vendor = "nvidia"};
const Machine kServer8{.discrete = 8, .vendor = "nvidia"};
const Machine kClusterNode{.discrete = 8, .nodes = 4, .vendor = "nvidia"};
const Machine kCpuNode{.nodes = 3};

struct Row {
  const char* name;
  Machine machine;
  Load load;
  const char* full;        // target and rule with every engine and upstream there
  const char* this_build;  // with what this release has: cpu
};
void PrintTo(const Row& one, std::ostream* out) {
  *out << one.name;
}

Facts facts_of(const Tree& tree, const Row& row, bool full) {
  Facts facts(tree.targets);
  for (const std::string_view backend : tree.targets->names())
    facts.set("backend." + std::string(backend) + ".available", full || config::kind_of(backend) == "cpu",
              "test");
  const Machine& m = row.machine;
  facts.set("hardware.memory.unified", m.unified, "probe");
  facts.set("hardware.gpu.discrete_count", m.discrete, "probe");
  facts.set("hardware.gpu.integrated_count", m.integrated, "probe");
  facts.set("hardware.gpu.count", m.discrete + m.integrated, "probe");
  facts.set("hardware.gpu.vendor", std::string(m.vendor), "probe");
  facts.set("hardware.cluster.nodes", m.nodes, "config");
  const Load& l = row.load;
  facts.set("workload.class", std::string(l.kind), "manifest");
  facts.set("app.privacy", std::string(l.privacy), "manifest");
  if (l.concurrency) facts.set("workload.concurrency", *l.concurrency, "manifest");
  if (l.prompt_tokens) facts.set("workload.prompt_tokens", *l.prompt_tokens, "manifest");
  if (l.shared_prefix) facts.set("workload.shared_prefix_tokens", *l.shared_prefix, "manifest");
  if (l.moe) facts.set("model.moe", *l.moe, "model file");
  if (l.fixed_critical) facts.set("workload.fixed_critical", *l.fixed_critical, "manifest");
  if (l.slo_ttft) facts.set("app.slo.ttft", *l.slo_ttft, "manifest");
  return facts;
}

class ShippedPolicy : public testing::TestWithParam<Row> {};

TEST_P(ShippedPolicy, SendsItWhereTheGuideSays) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const auto answer = [&](bool full) {
    Facts facts = facts_of(*tree, GetParam(), full);
    derive(facts);
    const Decision d = decide(*tree, facts);
    return d.target ? to_string(*d.target) + " " + d.rule->id : std::string("none");
  };
  EXPECT_EQ(answer(true), GetParam().full);
  EXPECT_EQ(answer(false), GetParam().this_build);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ShippedPolicy,
    testing::Values(
        Row{"laptop_chat", kLaptop, {.concurrency = 1}, "cpu no_gpu_any_load", "cpu no_gpu_any_load"},
        Row{"laptop_that_declares_nothing", kLaptop, {}, "cpu no_gpu_any_load", "cpu no_gpu_any_load"},
        Row{"small_box_with_production_traffic",
            kLaptop,
            {.concurrency = 50},
            "vllm no_gpu_production_streams",
            "cpu no_gpu_production_streams"},
        Row{"private_production_stays",
            kLaptop,
            {.concurrency = 50, .privacy = "local_only"},
            "cpu no_gpu_production_streams",
            "cpu no_gpu_production_streams"},
        Row{"small_box_long_prompts",
            kLaptop,
            {.kind = "rag", .concurrency = 16, .prompt_tokens = 20000},
            "sglang no_gpu_long_or_shared_prompts_of_people",
            "cpu no_gpu_long_or_shared_prompts_of_people"},
        Row{"apu_chat",
            kApu,
            {.concurrency = 1},
            "vulkan unified_memory_few_streams",
            "cpu unified_memory_few_streams"},
        Row{"apu_that_declares_nothing",
            kApu,
            {},
            "vulkan unified_memory_few_streams",
            "cpu unified_memory_few_streams"},
        Row{"unified_before_any_other_question",
            kApu,
            {.kind = "rag", .prompt_tokens = 30000, .moe = true, .fixed_critical = true},
            "vulkan unified_memory_few_streams",
            "cpu unified_memory_few_streams"},
        Row{"apu_eight_streams",
            kApu,
            {.concurrency = 8},
            "vllm unified_memory_many_streams_of_people",
            "cpu unified_memory_many_streams_of_people"},
        Row{"apu_eight_private_streams",
            kApu,
            {.concurrency = 8, .privacy = "local_only"},
            "vulkan unified_memory_many_streams_of_people",
            "cpu unified_memory_many_streams_of_people"},
        Row{"rtx_chat", kRtx4090, {.concurrency = 1}, "opencl one_gpu_one_user", "cpu one_gpu_one_user"},
        Row{"rtx_agent_seven_streams",
            kRtx4090,
            {.kind = "agent", .concurrency = 7},
            "opencl one_gpu_one_user",
            "cpu one_gpu_one_user"},
        Row{"laptop_nightly_batch",
            kLaptop,
            {.kind = "batch", .concurrency = 2},
            "cpu:background no_gpu_nobody_waits",
            "cpu:background no_gpu_nobody_waits"},
        Row{"laptop_summaries",
            kLaptop,
            {.kind = "summarization", .privacy = "local_only"},
            "cpu:background no_gpu_nobody_waits",
            "cpu:background no_gpu_nobody_waits"},
        Row{"rtx_summaries_that_somebody_waits_for",
            kRtx4090,
            {.kind = "summarization", .privacy = "local_only", .slo_ttft = 800},
            "opencl one_gpu_one_user",
            "cpu one_gpu_one_user"},
        Row{"laptop_long_batch_of_many_streams",
            kLaptop,
            {.kind = "batch", .concurrency = 8, .prompt_tokens = 9000, .privacy = "local_only"},
            "cpu:background no_gpu_long_or_shared_prompts_batch",
            "cpu:background no_gpu_long_or_shared_prompts_batch"},
        Row{"two_3090_batch",
            kTwo3090,
            {.kind = "batch", .privacy = "local_only"},
            "opencl:background several_gpus_batch",
            "cpu:background several_gpus_batch"},
        Row{"two_3090_batch_of_many_streams",
            kTwo3090,
            {.kind = "batch", .concurrency = 8, .privacy = "local_only"},
            "opencl:background production_batch",
            "cpu:background production_batch"},
        Row{"laptop_batch_of_many_streams",
            kLaptop,
            {.kind = "batch", .concurrency = 8, .privacy = "local_only"},
            "cpu:background no_gpu_production_batch",
            "cpu:background no_gpu_production_batch"},
        Row{"apu_batch_of_many_streams",
            kApu,
            {.kind = "batch", .concurrency = 8, .privacy = "local_only"},
            "vulkan:background unified_memory_many_streams_batch",
            "cpu:background unified_memory_many_streams_batch"},
        Row{"rtx_nightly_batch",
            kRtx4090,
            {.kind = "batch", .concurrency = 2},
            "opencl:background one_gpu_nobody_waits",
            "cpu:background one_gpu_nobody_waits"},
        Row{"rtx_batch_for_throughput",
            kRtx4090,
            {.kind = "batch", .concurrency = 8, .privacy = "local_only"},
            "opencl:background production_batch",
            "cpu:background production_batch"},
        Row{"apu_nightly_batch",
            kApu,
            {.kind = "batch", .concurrency = 2},
            "vulkan:background unified_memory_nobody_waits",
            "cpu:background unified_memory_nobody_waits"},
        Row{"rtx_production",
            kRtx4090,
            {.concurrency = 32},
            "vllm production_streams",
            "cpu production_streams"},
        Row{"rtx_private_production",
            kRtx4090,
            {.concurrency = 32, .privacy = "local_only"},
            "opencl production_streams",
            "cpu production_streams"},
        Row{"rtx_shared_prefix",
            kRtx4090,
            {.kind = "agent", .concurrency = 4, .shared_prefix = 4000},
            "sglang prefill_bound_streams",
            "cpu prefill_bound_streams"},
        Row{"rtx_moe_private",
            kRtx4090,
            {.privacy = "local_only", .moe = true},
            "opencl prefill_bound_streams",
            "cpu prefill_bound_streams"},
        Row{"rtx_fixed_critical",
            kRtx4090,
            {.fixed_critical = true},
            "tensorrt_llm fixed_critical_on_nvidia",
            "cpu one_gpu_one_user"},
        Row{"radeon_fixed_critical",
            kRadeon,
            {.fixed_critical = true},
            "opencl one_gpu_one_user",
            "cpu one_gpu_one_user"},
        Row{"two_3090_home",
            kTwo3090,
            {.concurrency = 2},
            "opencl several_gpus_few_streams",
            "cpu several_gpus_few_streams"},
        Row{"two_3090_production",
            kTwo3090,
            {.concurrency = 8},
            "vllm production_streams",
            "cpu production_streams"},
        Row{"four_3090_home",
            kFour3090,
            {},
            "opencl several_gpus_few_streams",
            "cpu several_gpus_few_streams"},
        Row{"eight_gpus",
            kServer8,
            {.concurrency = 4},
            "opencl several_gpus_few_streams",
            "cpu several_gpus_few_streams"},
        Row{"eight_gpus_production",
            kServer8,
            {.concurrency = 50},
            "vllm production_streams",
            "cpu production_streams"},
        Row{"eight_gpus_private_production",
            kServer8,
            {.concurrency = 50, .privacy = "local_only"},
            "opencl production_streams",
            "cpu production_streams"},
        Row{"cluster", kClusterNode, {.concurrency = 100}, "dynamo cluster", "cpu production_streams"},
        Row{"cluster_private",
            kClusterNode,
            {.concurrency = 100, .privacy = "local_only"},
            "opencl production_streams",
            "cpu production_streams"},
        Row{"cluster_without_gpu",
            kCpuNode,
            {.concurrency = 100},
            "dynamo cluster",
            "cpu no_gpu_production_streams"}),
    [](const auto& row) { return std::string(row.param.name); });

// One model that matters has an engine of its own where people wait in few streams and that engine fits.
struct CriticalRow {
  const char* name;
  Machine machine;
  std::vector<std::string> fits;  // engines of their own whose fits_now is true; it is false of the others
  const char* chosen;             // target and rule
  Load load = {};
  std::vector<std::pair<const char*, double>> measured = {};  // tokens/s of an engine
  std::optional<bool> fits_gpu = {}, fits_memory = {};
};
void PrintTo(const CriticalRow& one, std::ostream* out) {
  *out << one.name;
}
class ShippedPolicyCritical : public testing::TestWithParam<CriticalRow> {};

TEST_P(ShippedPolicyCritical, HasAnEngineOfItsOwnWhereThatFits) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const CriticalRow& row = GetParam();
  Load load = row.load;
  load.fixed_critical = true;
  load.privacy = "local_only";
  Facts facts = facts_of(*tree, {row.name, row.machine, load, "", ""}, true);
  for (const TargetInstance& target : tree->targets->instances())
    if (target.is_own_engine())
      facts.set(fact_of(target, TargetFact::fits_now), std::ranges::count(row.fits, target.id) == 1, "test");
  for (const auto& [engine, tps] : row.measured)
    facts.set(std::string("backend.") + engine + ".decode_tps", tps, "measured");
  if (row.fits_gpu) facts.set("model.fits_gpu", *row.fits_gpu, "test");
  if (row.fits_memory) facts.set("model.fits_memory", *row.fits_memory, "test");
  derive(facts);
  const Decision d = decide(*tree, facts);
  ASSERT_NE(d.target, nullptr);
  EXPECT_EQ(to_string(*d.target) + " " + d.rule->id, row.chosen);
}

const std::vector<std::string> kAllPinned{"cpu:pinned", "vulkan:pinned", "opencl:pinned"};

INSTANTIATE_TEST_SUITE_P(
    Table, ShippedPolicyCritical,
    testing::Values(
        CriticalRow{"laptop", kLaptop, kAllPinned, "cpu:pinned fixed_critical_on_cores"},
        CriticalRow{"full_laptop", kLaptop, {}, "cpu no_gpu_any_load"},
        CriticalRow{
            "laptop_batch", kLaptop, kAllPinned, "cpu:background no_gpu_nobody_waits", {.kind = "batch"}},
        CriticalRow{"laptop_seven_streams",
                    kLaptop,
                    kAllPinned,
                    "cpu:pinned fixed_critical_on_cores",
                    {.concurrency = 7}},
        CriticalRow{
            "laptop_eight_streams", kLaptop, kAllPinned, "cpu no_gpu_production_streams", {.concurrency = 8}},
        CriticalRow{"laptop_model_too_large",
                    kLaptop,
                    kAllPinned,
                    "cpu no_gpu_memory_too_small_of_people",
                    {},
                    {},
                    {},
                    false},
        CriticalRow{"laptop_model_that_fits",
                    kLaptop,
                    kAllPinned,
                    "cpu:pinned fixed_critical_on_cores",
                    {},
                    {},
                    {},
                    true},
        CriticalRow{"apu", kApu, kAllPinned, "vulkan:pinned fixed_critical_in_one_memory"},
        CriticalRow{"full_apu", kApu, {}, "vulkan unified_memory_few_streams"},
        CriticalRow{
            "apu_with_room_for_the_cores_alone", kApu, {"cpu:pinned"}, "vulkan unified_memory_few_streams"},
        CriticalRow{"apu_measured_faster_on_cores",
                    kApu,
                    kAllPinned,
                    "cpu:pinned fixed_critical_measured_cpu",
                    {},
                    {{"cpu", 30}, {"vulkan", 10}}},
        CriticalRow{"full_apu_measured_faster_on_cores",
                    kApu,
                    {"vulkan:pinned"},
                    "cpu unified_memory_measured_cpu",
                    {},
                    {{"cpu", 30}, {"vulkan", 10}}},
        CriticalRow{"apu_measured_as_its_class",
                    kApu,
                    kAllPinned,
                    "vulkan:pinned fixed_critical_in_one_memory",
                    {},
                    {{"cpu", 10}, {"vulkan", 30}}},
        CriticalRow{"apu_measured_faster_by_opencl",
                    kApu,
                    kAllPinned,
                    "opencl unified_memory_measured_opencl",
                    {},
                    {{"cpu", 10}, {"vulkan", 20}, {"opencl", 40}}},
        CriticalRow{"rtx", kRtx4090, kAllPinned, "opencl:pinned fixed_critical_on_a_card_by_opencl"},
        CriticalRow{"full_rtx", kRtx4090, {"cpu:pinned"}, "opencl one_gpu_one_user"},
        CriticalRow{"radeon", kRadeon, kAllPinned, "opencl:pinned fixed_critical_on_a_card_by_opencl"},
        CriticalRow{"full_radeon", kRadeon, {}, "opencl one_gpu_one_user"},
        CriticalRow{"radeon_measured_faster_by_vulkan",
                    kRadeon,
                    kAllPinned,
                    "vulkan:pinned fixed_critical_on_a_card_measured",
                    {},
                    {{"vulkan", 60}, {"opencl", 40}}},
        CriticalRow{"radeon_measured_hardly_faster_by_vulkan",
                    kRadeon,
                    kAllPinned,
                    "opencl:pinned fixed_critical_on_a_card_by_opencl",
                    {},
                    {{"vulkan", 41}, {"opencl", 40}}},
        CriticalRow{"radeon_model_larger_than_the_card",
                    kRadeon,
                    kAllPinned,
                    "cpu:pinned fixed_critical_on_cores",
                    {},
                    {},
                    false,
                    true},
        CriticalRow{"full_radeon_model_larger_than_the_card",
                    kRadeon,
                    {"opencl:pinned"},
                    "cpu weights_in_both_memories",
                    {},
                    {},
                    false,
                    true},
        CriticalRow{"two_3090", kTwo3090, kAllPinned, "opencl:pinned fixed_critical_on_a_card_by_opencl"},
        CriticalRow{"full_two_3090", kTwo3090, {}, "opencl several_gpus_few_streams"}),
    [](const auto& row) { return std::string(row.param.name); });

// Work that nobody waits for runs beside the cards in a second copy of the model, where that fits now.
TEST(ShippedPolicy, CoresTakeBatchWorkWhereASecondCopyFits) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const auto chosen = [&](const Machine& machine, std::optional<bool> fits, Load load) {
    load.privacy = "local_only";
    Facts facts = facts_of(*tree, {"", machine, load, "", ""}, true);
    if (fits) facts.set("backend.cpu:aside.fits_now", *fits, "test");
    facts.set("backend.opencl.expected_total", std::int64_t{9000}, "test");
    for (const char* engine : {"cpu", "cpu:aside"})
      facts.set(std::string("backend.") + engine + ".expected_total", std::int64_t{4000}, "test");
    derive(facts);
    const Decision d = decide(*tree, facts);
    return d.target ? to_string(*d.target) + " " + d.rule->id : std::string("none");
  };
  EXPECT_EQ(chosen(kRtx4090, true, {.kind = "batch"}), "cpu:aside one_gpu_cores_are_free");
  EXPECT_EQ(chosen(kRtx4090, false, {.kind = "batch"}), "cpu:background one_gpu_nobody_waits");
  EXPECT_EQ(chosen(kRtx4090, {}, {.kind = "batch"}), "cpu:background one_gpu_nobody_waits");
  EXPECT_EQ(chosen(kTwo3090, true, {.kind = "batch"}), "cpu:aside several_gpus_cores_are_free");
  EXPECT_EQ(chosen(kTwo3090, false, {.kind = "batch"}), "cpu:background several_gpus_batch");
  const Load streams{.kind = "batch", .concurrency = 16}, prompts{.kind = "batch", .prompt_tokens = 9000};
  EXPECT_EQ(chosen(kRtx4090, true, streams), "cpu:aside production_cores_are_free");
  EXPECT_EQ(chosen(kRtx4090, false, streams), "cpu:background production_batch");
  EXPECT_EQ(chosen(kRtx4090, true, prompts), "cpu:aside prefill_bound_cores_are_free");
  EXPECT_EQ(chosen(kRtx4090, false, prompts), "cpu:background prefill_bound_batch");
  EXPECT_EQ(chosen(kRtx4090, true, {.kind = "chat"}), "cpu one_gpu_one_user") << "people never stand aside";
}

// Work with time leaves the card to people, who would notice it there, while spare cores hold its deadline.
struct DeadlineRow {
  const char* name;
  const char* chosen;  // target and rule
  Load load = {.kind = "batch"};
  std::int64_t delay_at_card_us = 500'000;
  std::optional<bool> in_time = true;  // aside's meets_slo
  bool vllm = false, aside = true;     // available
};
void PrintTo(const DeadlineRow& one, std::ostream* out) {
  *out << one.name;
}
class ShippedPolicyDeadline : public testing::TestWithParam<DeadlineRow> {};

TEST_P(ShippedPolicyDeadline, GoesWhereItDelaysPeopleLeast) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const DeadlineRow& row = GetParam();
  Facts facts = facts_of(*tree, {"", kRtx4090, row.load, "", ""}, true);
  facts.set("app.slo.deadline", std::int64_t{3'600'000}, "test");
  facts.set("backend.vllm.available", row.vllm, "test");
  facts.set("backend.sglang.available", false, "test");
  facts.set("backend.vllm.expected_total", std::int64_t{30'000'000}, "test");
  facts.set("backend.opencl.expected_total", std::int64_t{60'000'000}, "test");
  facts.set("backend.opencl.expected_delay_to_others", row.delay_at_card_us, "test");
  facts.set("backend.cpu.expected_total", std::int64_t{900'000'000}, "test");
  facts.set("backend.cpu:aside.available", row.aside, "test");
  facts.set("backend.cpu:aside.memory_free", std::int64_t{1} << 40, "test");
  facts.set("model.bytes", std::int64_t{1} << 30, "test");
  if (row.in_time) facts.set("backend.cpu:aside.meets_slo", *row.in_time, "test");
  facts.set("backend.cpu:aside.expected_total", std::int64_t{900'000'000}, "test");
  facts.set("backend.cpu:aside.expected_delay_to_others", std::int64_t{0}, "test");
  derive(facts);
  const Decision d = decide(*tree, facts);
  ASSERT_TRUE(d.target);
  EXPECT_EQ(to_string(*d.target) + " " + d.rule->id, row.chosen);
}

const Load kManyBatchStreams{.kind = "batch", .concurrency = 16};
const Load kLongBatchPrompts{.kind = "batch", .prompt_tokens = 9000};
const Load kPrivateBatchStreams{.kind = "batch", .concurrency = 16, .privacy = "local_only"};
INSTANTIATE_TEST_SUITE_P(
    Table, ShippedPolicyDeadline,
    testing::Values(
        DeadlineRow{"in_time_on_the_cores", "cpu:aside cores_keep_the_deadline"},
        DeadlineRow{
            .name = "many_streams", .chosen = "cpu:aside cores_keep_the_deadline", .load = kManyBatchStreams},
        DeadlineRow{
            .name = "long_prompts", .chosen = "cpu:aside cores_keep_the_deadline", .load = kLongBatchPrompts},
        DeadlineRow{.name = "nobody_is_there",
                    .chosen = "opencl:background cores_keep_the_deadline",
                    .delay_at_card_us = 0},
        DeadlineRow{.name = "late_on_the_cores",
                    .chosen = "opencl:background one_gpu_cores_are_free",
                    .in_time = false},
        DeadlineRow{.name = "nothing_known_of_the_cores",
                    .chosen = "opencl:background one_gpu_cores_are_free",
                    .in_time = {}},
        DeadlineRow{
            .name = "aside_is_disabled", .chosen = "opencl:background one_gpu_nobody_waits", .aside = false},
        DeadlineRow{.name = "streams_for_a_server",
                    .chosen = "vllm production_cores_are_free",
                    .load = kManyBatchStreams,
                    .vllm = true},
        DeadlineRow{.name = "a_server_that_it_may_not_have",
                    .chosen = "cpu:aside cores_keep_the_deadline",
                    .load = kPrivateBatchStreams,
                    .vllm = true},
        DeadlineRow{.name = "few_streams_beside_a_server",
                    .chosen = "cpu:aside cores_keep_the_deadline_of_few_streams",
                    .vllm = true}),
    [](const auto& row) { return std::string(row.param.name); });

// What was measured here comes before what the class of the machine suggests; upstreams come before both.
struct MeasuredRow {
  const char* name;
  Machine machine;
  Load load;
  double cpu, vulkan, opencl;  // tokens/s; 0: not measured
  const char* target;
};
void PrintTo(const MeasuredRow& one, std::ostream* out) {
  *out << one.name;
}
class ShippedPolicyMeasured : public testing::TestWithParam<MeasuredRow> {};

TEST_P(ShippedPolicyMeasured, PassesOverTheSlowerEngine) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const MeasuredRow& row = GetParam();
  Facts facts = facts_of(*tree, {row.name, row.machine, row.load, "", ""}, true);
  const auto measured = [&](const char* backend, double tps) {
    if (tps == 0) return;
    facts.set(std::string("backend.") + backend + ".decode_tps", tps, "measured");
    facts.set(std::string("backend.") + backend + ".prefill_tps", tps * 10, "measured");
  };
  measured("cpu", row.cpu);
  measured("vulkan", row.vulkan);
  measured("opencl", row.opencl);
  derive(facts);
  const Decision d = decide(*tree, facts);
  ASSERT_NE(d.target, nullptr);
  EXPECT_EQ(to_string(*d.target), row.target) << d.rule->id;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ShippedPolicyMeasured,
    testing::Values(
        MeasuredRow{"apu_nothing_measured", kApu, {}, 0, 0, 0, "vulkan"},
        MeasuredRow{"apu_as_its_class", kApu, {}, 10, 30, 25, "vulkan"},
        MeasuredRow{"apu_slower_gpu", kApu, {}, 30, 10, 0, "cpu"},
        MeasuredRow{"apu_hardly_slower_gpu", kApu, {}, 31, 30, 0, "vulkan"},
        MeasuredRow{"apu_faster_by_opencl", kApu, {}, 10, 20, 40, "opencl"},
        MeasuredRow{"apu_only_the_gpu_measured", kApu, {}, 0, 10, 0, "vulkan"},
        MeasuredRow{"apu_many_streams_upstream", kApu, {.concurrency = 8}, 30, 10, 0, "vllm"},
        MeasuredRow{
            "apu_many_private_streams", kApu, {.concurrency = 8, .privacy = "local_only"}, 30, 10, 0, "cpu"},
        MeasuredRow{"rtx_as_its_class", kRtx4090, {}, 10, 30, 40, "opencl"},
        MeasuredRow{"rtx_faster_by_vulkan", kRtx4090, {}, 10, 60, 40, "vulkan"},
        MeasuredRow{"rtx_slower_than_cpu", kRtx4090, {}, 60, 0, 40, "cpu"},
        MeasuredRow{"rtx_production_upstream", kRtx4090, {.concurrency = 32}, 10, 60, 40, "vllm"},
        MeasuredRow{"rtx_private_production",
                    kRtx4090,
                    {.concurrency = 32, .privacy = "local_only"},
                    10,
                    60,
                    40,
                    "vulkan"},
        MeasuredRow{"rtx_long_prompts_upstream", kRtx4090, {.prompt_tokens = 9000}, 10, 60, 40, "sglang"},
        MeasuredRow{"laptop", kLaptop, {}, 10, 0, 0, "cpu"}),
    [](const auto& row) { return std::string(row.param.name); });

// Two engines on one card would halve each other. With a second card, or without OpenCL, Vulkan serves.
TEST(ShippedPolicy, VulkanSharesNoCardWithOpenCl) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const auto vulkan_of = [&](Machine machine, bool opencl, const char* kind) {
    Facts facts = facts_of(*tree, {"", machine, {.kind = kind}, "", ""}, true);
    facts.set("backend.opencl.available", opencl, "test");
    derive(facts);
    const Decision d = decide(*tree, facts);
    for (const TargetTrace& row : d.targets)
      if (row.target->backend == "vulkan") return row.verdict;
    return Verdict::unavailable;
  };
  for (const char* kind : {"chat", "batch"}) {
    EXPECT_EQ(vulkan_of(kRtx4090, true, kind), Verdict::denied) << kind;
    EXPECT_EQ(vulkan_of(kRtx4090, false, kind), Verdict::chosen) << kind;
    EXPECT_EQ(vulkan_of(kTwo3090, true, kind), Verdict::available) << kind;
    EXPECT_EQ(vulkan_of(kApu, true, kind), Verdict::chosen) << kind << ": one memory, and no card";
  }
  // The clearly faster engine has the card if both were measured there.
  const auto denied = [&](double opencl_tps, double vulkan_tps) {
    Facts facts = facts_of(*tree, {"", kRtx4090, {}, "", ""}, true);
    if (opencl_tps > 0) facts.set("backend.opencl.decode_tps", opencl_tps, "measured");
    facts.set("backend.vulkan.decode_tps", vulkan_tps, "measured");
    derive(facts);
    const Decision d = decide(*tree, facts);
    std::string out;
    for (const TargetTrace& row : d.targets)
      if (row.verdict == Verdict::denied) out += (out.empty() ? "" : " ") + row.target->backend;
    return out;
  };
  EXPECT_EQ(denied(30, 31), "vulkan") << "hardly faster";
  EXPECT_EQ(denied(0, 31), "vulkan") << "there is nothing to compare it with";
  EXPECT_EQ(denied(30, 60), "opencl");
}

TEST(ShippedPolicy, EveryRuleSaysWhyAndWherefrom) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  std::size_t n = 0;
  const auto check = [&](const auto& self, const Rule& rule) -> void {
    ++n;
    EXPECT_FALSE(rule.because.empty()) << rule.id;
    EXPECT_FALSE(rule.source.empty()) << rule.id;
    for (const Rule& child : rule.rules) self(self, child);
  };
  for (const Rule& rule : tree->rules) check(check, rule);
  check(check, tree->fallback);
  EXPECT_GT(n, 12U);
}

TEST(ShippedPolicy, SkippedEnginesAreInTheReceipt) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const Decision d = decide(*tree, facts_of(*tree, {"", kRtx4090, {.concurrency = 1}, "", ""}, false));
  ASSERT_GE(d.targets.size(), 2U);
  EXPECT_EQ(to_string(*d.targets[0].target), "opencl");
  EXPECT_EQ(d.targets[0].verdict, Verdict::unavailable);
  EXPECT_EQ(to_string(*d.targets[1].target), "vulkan");
  EXPECT_EQ(d.targets[1].verdict, Verdict::unavailable);
  ASSERT_GE(d.targets.size(), 3U);
  EXPECT_EQ(d.targets[2].verdict, Verdict::chosen);
}

}  // namespace
}  // namespace flyball::policy
