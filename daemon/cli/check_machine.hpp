// What config.yaml asks of this machine that is not to be had here: folders, devices, memory. The daemon
// starts all the same, so these are warnings.
#pragma once

#include <optional>
#include <vector>

#include "config/config.hpp"
#include "daemon/probe/model_files.hpp"
#include "daemon/probe/probe.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

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
// files: of the models that could be read. Asks for the hardware where the configuration names a device or a
// mixture of experts.
std::vector<policy::LintFinding> machine_warnings(const config::Config& config,
                                                  const probe::ModelFileInfos& files, Hardware& hardware);

}  // namespace flyball::cli
