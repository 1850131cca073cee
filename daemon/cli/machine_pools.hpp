// The memories of this machine in which a model may be planned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backends/graph/planner.hpp"
#include "config/config.hpp"
#include "daemon/cli/check_machine.hpp"

namespace flyball::cli {

struct MachinePool {
  std::string backend;  // an engine kind's id
  graph::PlanPool pool;
};
// The free memory of the machine for engines that compute on the processor, and all the memory of each device
// that the probe approves and the configuration takes. backend: one engine kind's, or kAllEngines. Asks for
// the hardware where a kind with devices is meant.
std::vector<MachinePool> machine_pools(Hardware& hardware, const config::Config& config,
                                       const std::string& backend);

// A pool as one word of a command line, and back; nullopt: it is none.
std::string pool_argument(const graph::PlanPool& pool);
std::optional<graph::PlanPool> pool_from_argument(const std::string& text);

// A plan in one of them, as `flyball plan --json` has it.
nlohmann::ordered_json pool_json(const graph::PoolPlan& plan);

}  // namespace flyball::cli
