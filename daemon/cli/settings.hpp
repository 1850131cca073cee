// Everything that the operator's files say, as the daemon goes by it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/api/gateway.hpp"
#include "daemon/cli/daemon.hpp"
#include "daemon/route/model_files.hpp"

namespace flyball::cli {

// Read and checked together; `files` looks into those of the models. The first mistake, with its place.
Result<std::shared_ptr<api::Settings>> load_settings(const DaemonOptions& options, route::ModelFiles& files);

// Keys whose values differ and that a reload leaves as they were when the daemon started.
std::vector<std::string> fixed_at_start(const config::Config& running, const config::Config& read);

}  // namespace flyball::cli
