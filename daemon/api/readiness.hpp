// Whether the daemon can serve, model by model: what /readyz says. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

// {"status": "ready"}, or 503 with
//   "draining": the daemon ends;
//   "failed":   no engine can serve a model with `preload`, the default model (without one: the only
//               model) or any model,
//               until an operator, a request or a later moment helps;
//   "loading":  a model with `preload` is on its way.
// `engines`: ids of the engine kinds that this machine has; one that a model has no worker of can be tried.
// `details`: with "models", each with its state and those of its engines.
http::Response readiness_view(const config::Config& config, const std::vector<std::string>& engines,
                              const std::vector<fleet::WorkerStatus>& workers, bool draining, bool details);

}  // namespace flyball::api
