#include "daemon/fleet/together.hpp"

#include <algorithm>

namespace flyball::fleet {
namespace {

bool exclude_each_other(const PlannedModel& a, const PlannedModel& b) {
  return !a.group.empty() && a.group == b.group && a.model != b.model;
}

// The bytes of those in the pool that `counts` picks; of a group's models only the largest.
template <class Counts>
std::uint64_t sum_of(std::span<const PlannedModel> models, std::size_t pool, Counts counts) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].pool != pool || !counts(i)) continue;
    const std::uint64_t bytes = models[i].need.least_bytes();
    bool largest = true;
    for (std::size_t j = 0; j < models.size() && largest; ++j) {
      const std::uint64_t others = models[j].need.least_bytes();
      largest = models[j].pool != pool || !counts(j) || !exclude_each_other(models[i], models[j]) ||
                others < bytes || (others == bytes && j > i);
    }
    if (largest) sum += bytes;
  }
  return sum;
}

}  // namespace

Together fit_together(std::span<const MemoryPool> pools, std::span<const PlannedModel> models) {
  Together out;
  out.fits.resize(models.size());
  std::vector<bool> pinned(models.size());  // and loaded
  const auto missing = [&](std::size_t i, std::uint64_t others) {
    const std::uint64_t capacity = pools[models[i].pool].capacity;
    const std::uint64_t room = std::min(capacity - std::min(capacity, others), models[i].most);
    return models[i].need.least_bytes() - std::min(models[i].need.least_bytes(), room);
  };
  for (const bool of_pinned : {true, false})
    for (std::size_t i = 0; i < models.size(); ++i) {
      if (models[i].pinned != of_pinned) continue;
      FitBeside& fit = out.fits[i];
      fit.missing = missing(i, sum_of(models, models[i].pool, [&](std::size_t j) { return pinned[j]; }));
      fit.never = fit.missing > 0;
      for (std::size_t j = 0; j < models.size(); ++j)
        fit.never |= pinned[j] && exclude_each_other(models[i], models[j]);
      pinned[i] = of_pinned && !fit.never;
    }
  for (std::size_t i = 0; i < models.size(); ++i) {
    FitBeside& fit = out.fits[i];
    if (fit.never) continue;
    const auto is_other = [&](std::size_t j) {
      return j != i && !out.fits[j].never && !exclude_each_other(models[i], models[j]);
    };
    fit.missing = missing(i, sum_of(models, models[i].pool, is_other));
    for (std::size_t j = 0; j < models.size(); ++j) {
      if (out.fits[j].never || pinned[j] || j == i) continue;
      if (exclude_each_other(models[i], models[j]))
        fit.group_ends.push_back(j);
      else if (fit.missing > 0 && models[j].pool == models[i].pool)
        fit.may_end.push_back(j);
    }
  }
  for (std::size_t pool = 0; pool < pools.size(); ++pool)
    out.at_least.push_back(sum_of(models, pool, [](std::size_t) { return true; }));
  return out;
}

}  // namespace flyball::fleet
