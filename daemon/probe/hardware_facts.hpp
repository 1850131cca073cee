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

// The ids of the devices that each kind's engines open: those that `names` names, each once, else the best
// GPU, and only devices that ran the probe's kernel. Without a name, Vulkan opens the best discrete GPU that
// OpenCL does not open, if there is one, so that a second card is used. A kind without devices has no ids.
// The error says why a device is missing.
using ApprovedDevices = std::expected<std::vector<std::string>, std::string>;
config::PerKind<ApprovedDevices> approved_devices(const HardwareReport& report,
                                                  const config::PerKind<config::DeviceNames>& names);
// The same ids; a kind that misses a device has none.
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
