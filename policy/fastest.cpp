#include "policy/fastest.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "config/engine_kinds.hpp"

namespace flyball::policy {
namespace {

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
    const TargetInstance* engine;
    FactId fact;
    double tps;
  };
  std::array<Speed, config::kEngineKinds.size()> speeds{};
  std::size_t n = 0;
  for (const TargetInstance& engine : facts.targets()->instances()) {
    if (engine.remote || engine.is_own_engine()) continue;
    const FactId id = fact_of(engine, prefill ? TargetFact::prefill_tps : TargetFact::decode_tps);
    const Fact* speed = facts.get(id);
    if (!facts.is_true(fact_of(engine, TargetFact::available)) || speed == nullptr || is_predicted(*speed) ||
        n == speeds.size())
      continue;
    speeds[n++] = {&engine, id, std::get<double>(speed->value)};
  }
  if (n == 0) return;
  const auto best = std::max_element(speeds.begin(), speeds.begin() + n,
                                     [](const Speed& a, const Speed& b) { return a.tps < b.tps; });
  std::vector<FactId> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(speeds[i].fact);
  const FactId fastest = *find_fact("engines.fastest");
  if (facts.get(fastest) == nullptr) facts.set_derived(fastest, best->engine->id, all);
  for (std::size_t i = 0; i < n; ++i) {
    const Speed& s = speeds[i];
    const FactId outpaced = fact_of(*s.engine, TargetFact::outpaced);
    if (facts.get(outpaced) != nullptr) continue;
    facts.set_derived(outpaced, best->tps >= s.tps * kClearlyFaster && &s != best, {s.fact, best->fact});
  }
}

}  // namespace flyball::policy
