// Whether configured models fit into their pools of memory together, and which would end for which: the
// governor's rules (daemon/fleet/governor) before anything is loaded, without its margins and the apps' own
// limits. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/memory_need.hpp"
#include "daemon/fleet/governor.hpp"

namespace flyball::fleet {

// A model with the engine that it would be loaded on.
struct PlannedModel {
  std::string model, backend;
  std::size_t pool = 0;
  MemoryNeed need;
  bool pinned = false;              // no other load ends it
  std::string group = {};           // one model of it may be loaded; "": none
  std::uint64_t most = UINT64_MAX;  // bytes of the pool that this engine could ever have
};

// A model's load while all others of its pool that fit are loaded, with the least that they need.
struct FitBeside {
  std::uint64_t missing = 0;                 // bytes
  std::vector<std::size_t> may_end = {};     // models that may end for it, until `missing` are free
  std::vector<std::size_t> group_ends = {};  // other models of its group: they end whatever is free
  // It is never loaded: `missing` are missing beside the pinned models alone, or one of its group is pinned.
  bool never = false;
};

struct Together {
  std::vector<FitBeside> fits;          // in the order of the models
  std::vector<std::uint64_t> at_least;  // bytes by pool: of all its models, one of each group
};

// Pinned models come first, in their order. Precondition: each one's pool is one of `pools`.
Together fit_together(std::span<const MemoryPool> pools, std::span<const PlannedModel> models);

}  // namespace flyball::fleet
