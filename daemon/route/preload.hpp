// Which engines a model that is to be preloaded starts with: those that requests will ask for.
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

// Where the policy sends a first chat of each app that may use the model; cpu where it sends none to an
// engine of this machine. `file`: what the model's file says of itself, nullptr: not known. `measured`,
// `now`: as gather's.
std::vector<std::string> preload_targets(const policy::Tree& tree, const policy::Facts& hardware,
                                         std::span<const config::AppManifest> apps,
                                         const config::ModelEntry& model,
                                         const fleet::MemoryStatus& memory, const BackendInfo* file = nullptr,
                                         const measure::Book& measured = {}, std::int64_t now = 0);

}  // namespace flyball::route
