// What this machine is: processor and memory asked directly, GPUs through child processes that may crash or
// hang without harm. Blocking (a second or so); run once at start and by `flyball probe`.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "backends/cpu/probe.hpp"
#include "backends/device_report.hpp"
#include "config/engine_kinds.hpp"

namespace flyball::probe {

struct HardwareReport {
  cpu::CpuReport cpu;
  config::PerKind<DeviceProbe> devices;  // of the kinds that have devices
};

struct ProbeOptions {
  std::filesystem::path program = "/proc/self/exe";  // `program probe --child KIND --patience-ms N`
  std::chrono::milliseconds timeout{20'000};  // of all kinds at once; a first OpenCL build takes seconds
};
HardwareReport probe_hardware(const ProbeOptions& options = {});

// The child's side: asks for the devices of one engine kind, prints a line of JSON for each on what was
// stdout and returns the exit status. The output of the drivers goes to /dev/null.
int run_probe_child(std::string_view kind, std::chrono::milliseconds patience);

nlohmann::json to_json(const HardwareReport& report);
std::string describe(const HardwareReport& report);  // for a terminal

}  // namespace flyball::probe
