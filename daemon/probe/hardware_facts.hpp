// From what was found out to what the policy may ask: pure functions from probe reports and the build to facts.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/probe/probe.hpp"
#include "policy/facts.hpp"

namespace flyball::probe {

// Source of the facts that the probe found out.
inline constexpr const char* kProbeSource = "probe";

// hardware.*: both device APIs describe the same hardware, so each kind of GPU is counted by the API that
// shows more of it. GPUs that did not run the probe's kernel and software drivers are no GPUs. Where none was
// found and a driver did not answer, nothing is known about GPUs.
void set_hardware_facts(const HardwareReport& report, policy::Facts& facts);

// The ids of the devices that an engine of this kind is to open, and no others: of those that ran the probe's
// kernel the best GPU, or what the configuration names, each once. Or why one is missing.
using ApprovedDevices = std::expected<std::vector<std::string>, std::string>;
ApprovedDevices approved_devices(const HardwareReport& report, const config::EngineKind& kind,
                                 const config::DeviceNames& names);
// The same of every kind; none where one is missing.
config::PerKind<std::vector<std::string>> opened_devices(const HardwareReport& report,
                                                         const config::PerKind<config::DeviceNames>& names);

// Whether a model on this device lies in the device's own memory, and not in the machine's.
bool has_own_memory(const DeviceProbe& probe, const std::string& id);

// backend.<id>.available and .reason of this release's engines and of upstream kinds without an upstream.
// Engines with devices are available where a GPU ran the probe's kernel by them, or all devices that `names`
// names.
void set_engine_facts(const HardwareReport& report, const config::PerKind<config::DeviceNames>& names,
                      policy::Facts& facts);

// Both, as `serve` and `explain` use them.
policy::Facts facts_of(const HardwareReport& report, const config::PerKind<config::DeviceNames>& names,
                       const policy::Targets& targets = policy::default_targets());

}  // namespace flyball::probe
