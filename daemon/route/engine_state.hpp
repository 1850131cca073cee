// An engine's process as the predictor is told of it.
#pragma once

#include "daemon/fleet/fleet.hpp"
#include "daemon/predict/predictor.hpp"

namespace flyball::route {

// It refers to `worker`.
predict::EngineState state_of(const fleet::WorkerStatus& worker);

}  // namespace flyball::route
