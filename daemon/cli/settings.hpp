// Everything that the operator's files say, as the daemon goes by it.
#pragma once

#include <memory>

#include "daemon/api/gateway.hpp"
#include "daemon/cli/daemon.hpp"
#include "daemon/route/model_files.hpp"

namespace flyball::cli {

// Read and checked together; `files` looks into those of the models. The first mistake, with its place.
Result<std::shared_ptr<api::Settings>> load_settings(const DaemonOptions& options, route::ModelFiles& files);

}  // namespace flyball::cli
