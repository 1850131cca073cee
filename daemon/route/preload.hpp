// The engines of a model that start with the daemon: those that requests will ask for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/measure/book.hpp"
#include "policy/facts.hpp"
#include "policy/tree.hpp"

namespace flyball::route {

// The engines to which the policy sends a first chat of each app that may use the model; cpu where it sends
// none to an engine of this machine. `file`: what the model's file says of itself, nullptr: not known.
// `measured`, `now`: as gather's.
std::vector<std::string> preload_targets(const policy::Tree& tree, const policy::Facts& hardware,
                                         std::span<const config::AppManifest> apps,
                                         const config::ModelEntry& model,
                                         const fleet::MemoryStatus& memory, const BackendInfo* file = nullptr,
                                         const measure::Book& measured = {}, std::int64_t now = 0);

// Engines that profiles keep loaded, and that the policy sends a first chat of apps to which declare
// fixed_critical and whose one model this is: the only one that the app may use, or the default model. They
// load with the daemon, whether the model has `preload` or not.
std::vector<std::string> critical_targets(const policy::Tree& tree, const policy::Facts& hardware,
                                          std::span<const config::AppManifest> apps,
                                          const config::ModelEntry& model, bool is_default,
                                          const fleet::MemoryStatus& memory,
                                          const BackendInfo* file = nullptr,
                                          const measure::Book& measured = {}, std::int64_t now = 0);

}  // namespace flyball::route
