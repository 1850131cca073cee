// Policies and facts for the test of allocations and the benchmark: 200 rules, three comparisons each, 80 of
// them inside 40 others, three targets where none is inside, under two constraints, with facts that walk them
// whole; and a rule that picks the fastest of six targets, with every prediction known.
#pragma once

#include <string>

#include "policy/facts.hpp"

namespace flyball::policy {

inline constexpr int kLargePolicyRules = 200;

inline std::string large_policy() {
  std::string out =
      "schema: flyball.policy/v1\n"
      "constraints:\n"
      "  stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}\n"
      "  large: {because: too large, when: {all: [{fact: model.fits_memory, eq: false}, {fact: model.moe, "
      "eq: "
      "true}]}, deny: cpu}\n"
      "rules:\n";
  const auto rule = [](int i) {
    const std::string n = std::to_string(i);
    return "id: r" + n +
           ", because: b, when: {all: [{fact: hardware.gpu.count, gte: 1}, {fact: workload.class, in: "
           "[rag, agent, chat]}, {fact: workload.concurrency, gte: " +
           std::to_string(2000 - i) + "}]}";
  };
  const std::string use = ", use: [\"opencl:latency\", vulkan, vllm]}";
  for (int i = 0; i < kLargePolicyRules;) {
    if (i % 5 == 0) {
      out += "  - {" + rule(i) + ",\n     rules: [{" + rule(i + 1) + use + ",\n             {" + rule(i + 2) +
             use + "]}\n";
      i += 3;
    } else {
      out += "  - {" + rule(i) + use + "\n";
      ++i;
    }
  }
  return out + "default: {because: b, use: cpu}\n";
}

// concurrency 1: no rule is true, each is asked to its last comparison. 2000: each rule is true, and none of
// its targets can be used. Either way `default` decides.
inline Facts large_policy_facts(std::int64_t concurrency) {
  Facts facts;
  for (const std::string_view backend : default_targets()->names()) {
    const std::string prefix = "backend." + std::string(backend);
    facts.set(prefix + ".available", backend == "cpu", "build");
    facts.set(prefix + ".reason", "the driver of this machine shows no device of that kind", "probe");
  }
  facts.set("app.privacy", std::string("local_only"), "manifest");
  facts.set("model.fits_memory", true, "derived");
  facts.set("hardware.gpu.count", std::int64_t{1}, "probe");
  facts.set("workload.class", std::string("chat"), "manifest");
  facts.set("workload.concurrency", concurrency, "manifest");
  return facts;
}

// The rule before it picks by the SLO, which no target meets.
inline std::string predicted_policy() {
  const std::string use = ", use: [\"vulkan:latency\", opencl, cpu, vllm, sglang, dynamo]";
  return "schema: flyball.policy/v1\n"
         "rules:\n"
         "  - {id: in_time, because: b" +
         use +
         ", pick: meets_slo}\n"
         "  - {id: fastest, because: b" +
         use +
         ", pick: fastest}\n"
         "default: {because: b, use: cpu}\n";
}

// Two near-equals, the later one of them loaded.
inline Facts predicted_facts() {
  Facts facts;
  std::int64_t total = 900'000;  // microseconds
  for (const char* backend : {"vulkan", "opencl", "cpu", "vllm", "sglang", "dynamo"}) {
    const std::string prefix = std::string("backend.") + backend + ".";
    const std::string source = "predicted: queue 12.0 + load 0 + prefill 40.1 + step 9.2 ms";
    facts.set(prefix + "available", true, "supervisor");
    facts.set(prefix + "loaded", std::string_view(backend) == "sglang", "supervisor");
    facts.set(prefix + "cached_tokens", std::int64_t{480}, source);
    facts.set(prefix + "kv_room", std::int64_t{65'536}, "supervisor");
    facts.set(prefix + "expected_ttft", total / 4, source);
    facts.set(prefix + "expected_tpot", total / 64, source);
    facts.set(prefix + "expected_total", total, source);
    facts.set(prefix + "meets_slo", false, source);
    total = total > 500'000 ? total - 150'000 : total + 9'000;
  }
  return facts;
}

}  // namespace flyball::policy
