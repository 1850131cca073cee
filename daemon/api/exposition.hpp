// The answer to GET /metrics: gauges are read off the daemon's state when somebody asks.
#pragma once

#include "config/app_manifest.hpp"
#include "daemon/api/service_state.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

// viewer: the app whose figures they are; nullptr: the operator, who sees all.
http::Response exposition(ServiceState& service, const config::AppManifest* viewer);

}  // namespace flyball::api
