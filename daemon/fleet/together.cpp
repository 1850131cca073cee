#include "daemon/fleet/together.hpp"

#include <algorithm>

namespace flyball::fleet {
namespace {

// The others of its group end for a model whatever is free.
bool stay_together(const PlannedModel& a, const PlannedModel& b) {
  return a.pool == b.pool && (a.group.empty() || a.group != b.group || b.pinned);
}

}  // namespace

std::vector<FitBeside> fit_together(std::span<const MemoryPool> pools, std::span<const PlannedModel> models) {
  std::vector<FitBeside> out(models.size());
  const auto missing = [&](const PlannedModel& one, std::uint64_t others) {
    const std::uint64_t sum = one.need.least_bytes() + others;
    return sum - std::min(sum, pools[one.pool].capacity);
  };
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::uint64_t pinned = 0;
    for (std::size_t j = 0; j < models.size(); ++j)
      if (j != i && models[j].pinned && stay_together(models[i], models[j]))
        pinned += models[j].need.least_bytes();
    out[i].missing = missing(models[i], pinned);
    out[i].never = out[i].missing > 0;
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (out[i].never) continue;
    std::uint64_t others = 0;
    for (std::size_t j = 0; j < models.size(); ++j) {
      if (j == i || out[j].never || !stay_together(models[i], models[j])) continue;
      others += models[j].need.least_bytes();
      if (!models[j].pinned) out[i].may_end.push_back(j);
    }
    out[i].missing = missing(models[i], others);
    if (out[i].missing == 0) out[i].may_end.clear();
  }
  return out;
}

}  // namespace flyball::fleet
