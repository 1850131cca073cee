// Flyball as a Router: what Dispatcher::Impl does for a request, on simulated time. Real: the probe's facts
// of a machine, gather(), the measure::Book, the Predictor (fed as RunningJob feeds it), decide() on a
// policy, the settings of the target's profile, and the Reconsideration of a request that waits. The router
// knows of the engines what the daemon knows: their status, what a calibration measured of them before the
// run, and what their answers took. It never sees the cost model, the noise or an output length.
#pragma once

#include <memory>
#include <span>

#include "policy/tree.hpp"
#include "tests/bench/simulation/world.hpp"

namespace flyball::simulation {

// `machine` and `tree` outlive the router. Each of `apps` declares its output tokens.
std::unique_ptr<Router> make_flyball_router(const MachineSpec& machine, const policy::Tree& tree,
                                            std::span<const config::AppManifest> apps);

}  // namespace flyball::simulation
