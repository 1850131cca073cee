// The keys of config.yaml: which there are, of which type and range, meaning what, and where each value goes.
#pragma once

#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/table.hpp"

namespace flyball::config {

inline constexpr std::string_view kConfigSchema = "flyball.config/v1";

const std::vector<Bound<Config>>& config_table();
// Its `worker`, for what no single row shows.
const std::vector<Bound<HttpLimits>>& http_table();
const std::vector<Bound<WorkerLimits>>& worker_table();

}  // namespace flyball::config
