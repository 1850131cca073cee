// Time of one decision into storage that is used again: the shipped tree with the facts of the machine rows
// that walk it least and furthest, a tree of 200 rules that is walked whole, and rules that pick by
// predictions. policy_bench [--json] prints p50 and p99 in microseconds; the target is a p50 of at most 5.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "policy/decide.hpp"
#include "tests/policy/large_policy.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using namespace flyball::policy;

Facts machine(const Targets& targets, bool unified, std::int64_t discrete) {
  Facts facts(targets);
  for (const std::string_view backend : targets->names()) {
    const std::string prefix = "backend." + std::string(backend);
    const bool is_cpu = flyball::config::kind_of(backend) == "cpu";
    facts.set(prefix + ".available", is_cpu, "build");
    if (!is_cpu)
      facts.set(prefix + ".reason", std::string("no upstream of this kind is configured"), "build");
  }
  facts.set("hardware.memory.unified", unified, "probe");
  facts.set("hardware.gpu.discrete_count", discrete, "probe");
  facts.set("hardware.gpu.count", discrete + (unified ? 1 : 0), "probe");
  facts.set("hardware.gpu.vendor", std::string("nvidia"), "probe");
  facts.set("hardware.cluster.nodes", std::int64_t{1}, "config");
  facts.set("app.privacy", std::string("local_only"), "manifest");
  facts.set("workload.class", std::string("chat"), "manifest");
  facts.set("workload.concurrency", std::int64_t{1}, "manifest");
  return facts;
}

struct Figures {
  const char* name;
  std::size_t rules;
  double p50, p99;
};

Figures measure(const char* name, const Tree& tree, const Facts& facts) {
  constexpr int kWarmUp = 1'000, kSamples = 20'000;
  std::vector<double> us;
  us.reserve(kSamples);
  Decision d;
  for (int i = -kWarmUp; i < kSamples; ++i) {
    const auto start = Clock::now();
    decide(tree, facts, d);
    const auto end = Clock::now();
    if (i >= 0) us.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  std::ranges::sort(us);
  return {name, d.rules.size(), us[us.size() / 2], us[us.size() * 99 / 100]};
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  const auto tree = parse_policy(flyball::config::default_policy_yaml(), "policy.yaml");
  const auto large = parse_policy(large_policy(), "large.yaml");
  const auto predicted = parse_policy(predicted_policy(), "predicted.yaml");
  for (const auto* one : {&tree, &large, &predicted})
    if (!*one) {
      std::fprintf(stderr, "%s: %s\n", one->error().where.c_str(), one->error().message.c_str());
      return 1;
    }
  const Figures rows[] = {measure("unified_memory", *tree, machine(tree->targets, true, 0)),
                          measure("no_gpu", *tree, machine(tree->targets, false, 0)),
                          measure("one_gpu", *tree, machine(tree->targets, false, 1)),
                          measure("default", *tree, machine(tree->targets, false, 8)),
                          measure("200 rules, none true", *large, large_policy_facts(1)),
                          measure("200 rules, all true", *large, large_policy_facts(2000)),
                          measure("predictions for 6 targets", *predicted, predicted_facts())};
  if (json) std::printf("{\"bench\":\"policy\",\"unit\":\"us\",\"target_p50\":5,\"rows\":[");
  for (const Figures& row : rows)
    if (json)
      std::printf("%s{\"machine\":\"%s\",\"rules\":%zu,\"p50\":%.2f,\"p99\":%.2f}", &row == rows ? "" : ",",
                  row.name, row.rules, row.p50, row.p99);
    else
      std::printf("%-25s %3zu rules   p50 %6.2f us   p99 %6.2f us\n", row.name, row.rules, row.p50, row.p99);
  if (json) std::printf("]}\n");
  return 0;
}
