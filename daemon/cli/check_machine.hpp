// What config.yaml asks of this machine that is not to be had here: folders, devices, memory. The daemon
// starts all the same, so these are warnings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

struct ModelWeights {
  std::string model;
  std::uint64_t bytes = 0;
};
// Probes the devices where the configuration names one.
std::vector<policy::LintFinding> machine_warnings(const config::Config& config,
                                                  std::span<const ModelWeights> weights);

}  // namespace flyball::cli
