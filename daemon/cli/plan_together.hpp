// `flyball plan --config`: whether the models of a configuration fit into memory together, each on the engines
// that the policy chooses for it, and which would end for which.
#pragma once

#include <string>

namespace flyball::cli {

// path: "": the configuration that `serve` would take. An exit code: kFailed where a model is never loaded,
// because it does not fit beside the pinned ones or one of its group is pinned.
int plan_together(const std::string& path, bool as_json);

}  // namespace flyball::cli
