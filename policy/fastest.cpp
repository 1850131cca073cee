#include "policy/fastest.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace flyball::policy {
namespace {

struct EngineFacts {
  std::string_view backend;
  FactId available, decode, prefill, outpaced;
};

const std::vector<EngineFacts>& local_engines() {
  static const auto kEngines = [] {
    std::vector<EngineFacts> out;
    for (const std::string_view backend : known_backends()) {
      if (is_remote(backend)) continue;
      const std::string prefix = "backend." + std::string(backend);
      out.push_back({backend, *find_fact(prefix + ".available"), *find_fact(prefix + ".decode_tps"),
                     *find_fact(prefix + ".prefill_tps"), *find_fact(prefix + ".outpaced")});
    }
    return out;
  }();
  return kEngines;
}

// Indexing, summaries and the like are reading; chat and agents wait for what is written.
bool lives_in_prefill(const Facts& facts) {
  if (const Fact* phase = facts.get("workload.phase"))
    return std::get<std::string>(phase->value) == "prefill";
  constexpr std::array<std::string_view, 6> kReading = {"batch",         "rag",        "classification",
                                                        "summarization", "extraction", "embedding"};
  const Fact* kind = facts.get("workload.class");
  return kind != nullptr && std::ranges::find(kReading, std::get<std::string>(kind->value)) != kReading.end();
}

}  // namespace

void derive_fastest(Facts& facts) {
  const bool prefill = lives_in_prefill(facts);
  struct Speed {
    const EngineFacts* engine;
    FactId fact;
    double tps;
  };
  std::array<Speed, 8> speeds{};
  std::size_t n = 0;
  for (const EngineFacts& engine : local_engines()) {
    const FactId id = prefill ? engine.prefill : engine.decode;
    const Fact* available = facts.get(engine.available);
    const Fact* speed = facts.get(id);
    if (available == nullptr || !std::get<bool>(available->value) || speed == nullptr ||
        is_predicted(*speed) || n == speeds.size())
      continue;
    speeds[n++] = {&engine, id, std::get<double>(speed->value)};
  }
  if (n == 0) return;
  const auto best = std::max_element(speeds.begin(), speeds.begin() + n,
                                     [](const Speed& a, const Speed& b) { return a.tps < b.tps; });
  std::vector<FactId> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(speeds[i].fact);
  const FactId fastest = *find_fact("engines.fastest");
  if (facts.get(fastest) == nullptr) facts.set_derived(fastest, std::string(best->engine->backend), all);
  for (std::size_t i = 0; i < n; ++i) {
    const Speed& s = speeds[i];
    if (facts.get(s.engine->outpaced) != nullptr) continue;
    facts.set_derived(s.engine->outpaced, best->tps >= s.tps * kClearlyFaster && &s != best,
                      {s.fact, best->fact});
  }
}

}  // namespace flyball::policy
