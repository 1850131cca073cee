// Whether people wait for the answers of a request.
#pragma once

#include "policy/facts.hpp"

namespace flyball::policy {

// Sets workload.interactive by workload.class, workload.objective and app.slo.* (config::people_wait), unless
// it is set or no class is known.
void derive_interactive(Facts& facts);

}  // namespace flyball::policy
