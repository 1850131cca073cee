// Warnings of manifests that ask for more than the configuration, this release or this machine gives. The
// daemon starts all the same.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/cli/check_machine.hpp"
#include "daemon/probe/model_files.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

// Apps that no request can act as. folder: of the manifests.
std::vector<policy::LintFinding> unreachable_apps(const config::Config& config,
                                                  const std::vector<config::AppManifest>& apps,
                                                  const std::string& folder);
// Features that nothing here serves.
std::vector<policy::LintFinding> unserved_apps(const std::vector<config::AppManifest>& apps);
// Times and lengths that no model which the app may use has on this machine: by measurements, else as they
// are predicted. files: of the configuration's models that could be read. Asks for the hardware where an app
// declares a time.
std::vector<policy::LintFinding> unattainable_apps(const config::Config& config,
                                                   const std::vector<config::AppManifest>& apps,
                                                   const probe::ModelFileInfos& files, Hardware& hardware);

}  // namespace flyball::cli
