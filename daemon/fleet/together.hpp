// Whether configured models fit into their pools of memory together, and who would end for whom: the governor's
// rules (daemon/fleet/governor), before anything is loaded. Pure.
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
  bool pinned = false;  // it ends for nobody
  std::string group;    // of whose models one may be loaded; "": none
};

// A model's load while all others of its pool that fit are loaded, with the least that they need.
struct FitBeside {
  std::uint64_t missing = 0;              // bytes; 0: nobody has to end
  std::vector<std::size_t> may_end = {};  // models that may end for it, until `missing` are free
  bool never = false;                     // `missing` are missing beside the pinned ones alone
};

// In the order of `models`. Precondition: each one's pool is one of `pools`.
std::vector<FitBeside> fit_together(std::span<const MemoryPool> pools, std::span<const PlannedModel> models);

}  // namespace flyball::fleet
