#include "policy/cards.hpp"

#include <array>
#include <vector>

#include "config/engine_kinds.hpp"

namespace flyball::policy {

void derive_shared_cards(Facts& facts) {
  static const FactId discrete_count = *find_fact("hardware.gpu.discrete_count");
  const Fact* const discrete = facts.get(discrete_count);
  if (discrete == nullptr) return;
  std::array<const TargetInstance*, config::kEngineKinds.size()> engines{};
  std::size_t n = 0;
  bool all_set = true;  // as in the daemon, where the probe sets it and a request pays for no more than this
  for (const TargetInstance& target : facts.targets()->instances()) {
    const config::EngineKind* const kind = config::find_engine_kind(target.kind);
    if (kind == nullptr || !kind->has_devices() || target.is_own_engine()) continue;
    const Fact* const available = facts.get(fact_of(target, TargetFact::available));
    if (n == engines.size() || (available != nullptr && !std::get<bool>(available->value))) continue;
    engines[n++] = &target;
    all_set &= facts.get(fact_of(target, TargetFact::shares_card)) != nullptr;
  }
  if (all_set) return;
  const std::int64_t cards = std::get<std::int64_t>(discrete->value);
  std::vector<FactId> from{discrete_count};
  for (std::size_t i = 0; i < n; ++i)
    if (const FactId id = fact_of(*engines[i], TargetFact::available); facts.get(id) != nullptr)
      from.push_back(id);
  for (std::size_t i = 0; i < n; ++i)
    if (const FactId fact = fact_of(*engines[i], TargetFact::shares_card); facts.get(fact) == nullptr)
      facts.set_derived(fact, cards > 0 && cards < static_cast<std::int64_t>(n), from);
}

}  // namespace flyball::policy
