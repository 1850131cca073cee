// Flyball as a Router: what Dispatcher::Impl does for a request, on simulated time. Real: gather(), the
// measure::Book, the Predictor (fed as RunningJob feeds it), and decide() on a policy file. The router knows
// of the engines what the daemon knows: their status, what a calibration measured of them before the run, and
// what their answers took. It never sees the cost model, the noise or an output length.
#pragma once

#include <memory>
#include <string>

#include "tests/bench/simulation/world.hpp"

namespace flyball::simulation {

// The policy file of the machine: people's requests go where their SLO is met, batch work to the slowest
// engine.
std::string policy_of(const MachineSpec& machine);
std::unique_ptr<Router> make_flyball_router(const MachineSpec& machine);

}  // namespace flyball::simulation
