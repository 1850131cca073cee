// `flyball plan --config`: whether the models of a configuration fit into memory together, each on the engines
// that the policy chooses for it, and which would end for which.
#pragma once

#include <string>

namespace flyball::cli {

// path: "": the configuration that `serve` would take. An exit code: kFailed where a model fits nowhere, even
// alone with those that are pinned.
int plan_together(const std::string& path, bool as_json);

}  // namespace flyball::cli
