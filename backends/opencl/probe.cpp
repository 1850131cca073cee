// By the very calls that the engine makes (device.cpp): what passes here passes there.
#include "backends/opencl/probe.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>

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
  Device& device = *trial.device;
  const std::string_view sources[] = {kernel_source("probe")};
  auto program = device.compile("probe", sources, "");
  if (!program) return std::unexpected(std::move(program.error()));
  trial.program = std::move(*program);
  auto kernel = device.kernel(trial.program, "probe");
  if (!kernel) return std::unexpected(std::move(kernel.error()));
  trial.kernel = std::move(*kernel);

  std::vector<cl_uint> data(kProbeElements);
  for (cl_uint i = 0; i < kProbeElements; ++i) data[i] = ~i;
  const auto bytes = std::as_writable_bytes(std::span(data));
  auto buffer = device.allocate(bytes.size(), "the probe");
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  trial.buffer = std::move(*buffer);
  if (auto ok = device.write(trial.buffer, 0, bytes); !ok) return ok;
  Grid grid;
  grid.global[0] = kProbeElements;
  grid.local[0] = device.facts().max_work_group >= 64 ? 64 : 1;
  if (auto ok = device.run(trial.kernel, grid, trial.buffer, kProbeElements); !ok) return ok;
  if (auto ok = device.read(trial.buffer, 0, bytes); !ok) return ok;
  for (cl_uint i = 0; i < kProbeElements; ++i)
    if (data[i] != ~i + i * kProbeFactor)
      return fail(ErrorCode::device_lost, "the kernel's answer is wrong at element " + std::to_string(i));
  return {};
}

DeviceReport report_of(const DeviceFacts& f) {
  DeviceReport report;
  report.id = f.id;
  report.name = f.name;
  report.driver = f.driver;
  report.vendor = vendor_name(f.vendor);
  report.memory_bytes = f.memory_bytes;
  report.compute_units = f.compute_units;
  report.unified = f.unified;
  report.uuid = f.uuid;
  report.pci = f.pci;
  report.kind = f.processor ? "software" : f.unified ? "integrated" : "discrete";
  return report;
}

}  // namespace

std::string probe_devices(const ProbeRun& run) {
  const auto asked = std::chrono::steady_clock::now();
  auto api = load_api();
  if (!api) return api.error().message;
  auto devices = find_devices(**api);
  std::ranges::stable_partition(devices, [](const FoundDevice& d) { return !d.facts.processor; });
  for (std::size_t i = 0; i < devices.size(); ++i) {
    DeviceReport report = report_of(devices[i].facts);
    const auto trial = new Trial;
    DeviceOptions options;
    options.fence_deadline = patience_with_next(asked, run, devices.size() - i);
    options.settle_deadline = {};  // the trial stays in any case
    auto device = Device::open(*api, devices[i], options);
    Result<void> ran;
    if (device) {
      trial->device = std::move(*device);
      ran = dispatch(*trial);
    } else {
      ran = std::unexpected(std::move(device.error()));
    }
    report.dispatched = ran.has_value();
    if (!ran) report.error = std::move(ran.error().message);
    run.on_device(report);
  }
  return devices.empty() ? "no OpenCL device" : "";
}

}  // namespace flyball::opencl
