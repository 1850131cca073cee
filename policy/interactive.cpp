#include "policy/interactive.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/app_manifest.hpp"

namespace flyball::policy {

void derive_interactive(Facts& facts) {
  static const FactId interactive = *find_fact("workload.interactive"), kind = *find_fact("workload.class"),
                      objective = *find_fact("workload.objective"), ttft = *find_fact("app.slo.ttft"),
                      tpot = *find_fact("app.slo.tpot");
  const Fact* const declared = facts.get(kind);
  if (declared == nullptr || facts.get(interactive) != nullptr) return;
  const auto classes = config::workload_classes();
  const auto at = std::ranges::find(classes, std::get<std::string>(declared->value));
  if (at == classes.end()) return;
  const Fact* const wanted = facts.get(objective);
  const bool asks_for_speed = facts.get(ttft) != nullptr || facts.get(tpot) != nullptr ||
                              (wanted != nullptr && std::get<std::string>(wanted->value) == "latency");
  const auto which = static_cast<config::WorkloadClass>(at - classes.begin());
  std::vector<FactId> from;
  from.reserve(4);
  for (const FactId id : {kind, objective, ttft, tpot})
    if (facts.get(id) != nullptr) from.push_back(id);
  facts.set_derived(interactive, config::people_wait(which, asks_for_speed), std::move(from));
}

}  // namespace flyball::policy
