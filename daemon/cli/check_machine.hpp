// What config.yaml asks of this machine that is not to be had here: folders, devices, memory. The daemon
// starts all the same, so these are warnings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/probe/probe.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

struct ModelWeights {
  std::string model;
  std::uint64_t bytes = 0;
};
// The hardware of this machine, probed when it is asked for first.
class Hardware {
 public:
  const probe::HardwareReport& report() {
    if (!report_) report_ = probe::probe_hardware();
    return *report_;
  }

 private:
  std::optional<probe::HardwareReport> report_;
};
// Asks for the hardware where the configuration names a device.
std::vector<policy::LintFinding> machine_warnings(const config::Config& config,
                                                  std::span<const ModelWeights> weights, Hardware& hardware);

}  // namespace flyball::cli
