#include "policy/interactive.hpp"

#include <algorithm>
#include <string>

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
  facts.set(interactive, config::people_wait(which, asks_for_speed), kDerivedSource);
}

}  // namespace flyball::policy
