// The header fields by which a request asks for a stricter SLO than its app's manifest: x-slo-ttft-ms and
// x-slo-tpot-ms.
#pragma once

#include "config/error.hpp"
#include "daemon/http/message.hpp"
#include "daemon/route/facts.hpp"

namespace flyball::api {

// Sets slo_ttft and slo_tpot of `traits` from the fields that are there. invalid_value: one is no whole
// number of milliseconds within its limits, or is there twice.
Result<void> read_slo_fields(const http::Request& request, route::RequestTraits& traits);

}  // namespace flyball::api
