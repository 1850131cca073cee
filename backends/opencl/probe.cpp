// By the very calls that the engine makes (device.cpp): what passes here passes there.
#include "backends/opencl/probe.hpp"

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/device/probe.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/programs.hpp"

namespace flyball::opencl {
namespace {

// What is made on a device, left to the end of the process: drivers that compute and crash at the end are
// known, and what they computed counts.
struct Trial {
  std::shared_ptr<Device> device;
  Handle<cl_program> program;
  Kernel kernel;
  Memory buffer;
};

Result<void> dispatch(Trial& trial) {
  Device& opened = *trial.device;
  const std::string_view sources[] = {kernel_source("probe")};
  auto program = opened.compile("probe", sources, "");
  if (!program) return pass(program);
  trial.program = std::move(*program);
  auto kernel = opened.kernel(trial.program, "probe");
  if (!kernel) return pass(kernel);
  trial.kernel = std::move(*kernel);

  std::vector<cl_uint> data(device::kProbeElements);
  device::fill_probe(data);
  const auto bytes = std::as_writable_bytes(std::span(data));
  auto buffer = opened.allocate(bytes.size(), "the probe");
  if (!buffer) return pass(buffer);
  trial.buffer = std::move(*buffer);
  if (auto ok = opened.write(trial.buffer, 0, bytes); !ok) return pass(ok);
  Grid grid;
  grid.global[0] = device::kProbeElements;
  grid.local[0] = opened.facts().max_work_group >= 64 ? 64 : 1;
  if (auto ok = opened.run(trial.kernel, grid, trial.buffer, device::kProbeElements); !ok) return pass(ok);
  if (auto ok = opened.read(trial.buffer, 0, bytes); !ok) return pass(ok);
  return device::check_probe(data);
}

}  // namespace

std::string probe_devices(const ProbeRun& run) {
  const auto asked = std::chrono::steady_clock::now();
  auto api = load_api();
  if (!api) return api.error().message;
  auto devices = find_devices(**api);
  std::vector<DeviceReport> reports;
  for (const FoundDevice& found : devices) {
    reports.push_back({found.facts});
    reports.back().compute_units = found.facts.compute_units;
  }
  device::probe_each(run, asked, std::move(reports), [&](std::size_t i, auto patience) -> Result<void> {
    DeviceOptions options;
    options.fence_deadline = patience;
    options.settle_deadline = {};  // the trial stays in any case
    auto device = Device::open(*api, devices[i], options);
    if (!device) return pass(device);
    return dispatch(*new Trial{std::move(*device), {}, {}, {}});
  });
  return devices.empty() ? "no OpenCL device" : "";
}

}  // namespace flyball::opencl
