// A bound on what any choice of engines could reach: a local search over whole assignments, each of which is
// simulated with its true lengths and costs. It begins from every compared assignment and keeps the best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/bench/simulation/measure.hpp"

namespace flyball::simulation {

struct SearchOptions {
  std::uint32_t simulations = 40;  // most assignments that are tried
  std::uint64_t seed = 1;
};
// `starts`: placements by request. Settings stay those of the start. The order in which an engine takes its
// requests stays the queue's.
Figures clairvoyant(const MachineSpec& machine, std::span<const SimRequest> requests, double seconds,
                    const std::vector<std::vector<Placement>>& starts, std::uint64_t noise_seed,
                    const SearchOptions& options);

}  // namespace flyball::simulation
