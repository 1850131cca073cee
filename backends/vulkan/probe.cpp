// By the very calls that the engine makes (device.cpp): what passes here passes there.
#include "backends/vulkan/probe.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "backends/device/probe.hpp"
#include "backends/vulkan/device.hpp"

namespace flyball::vulkan {
namespace {

constexpr std::uint32_t kGroup = 64;

// What is made on a device, left to the end of the process: drivers that compute and crash at the end are
// known, and what they computed counts.
struct Trial {
  std::shared_ptr<Device> device;
  Memory buffer;
};

Result<void> dispatch(Trial& trial) {
  Device& opened = *trial.device;
  const std::uint32_t constants[] = {kGroup};
  auto kernel = opened.pipeline("probe", constants, sizeof(ElementwisePush));
  if (!kernel) return pass(kernel);
  auto buffer = opened.allocate(device::kProbeElements * sizeof(std::uint32_t), "the probe", Place::shared);
  if (!buffer) return pass(buffer);
  trial.buffer = std::move(*buffer);
  const std::span data(reinterpret_cast<std::uint32_t*>(trial.buffer.host()), device::kProbeElements);
  device::fill_probe(data);
  const ElementwisePush push{trial.buffer.address(), 0, device::kProbeElements, 0};
  auto ok = opened.run([&](Commands& c) {
    c.dispatch(*kernel, push, {device::kProbeElements / kGroup, 1, 1});
  });
  if (!ok) return pass(ok);
  return device::check_probe(data);
}

DeviceReport report_of(const DeviceFacts& f) {
  DeviceReport report{f};
  report.features = "subgroups of " + std::to_string(f.subgroup_size);
  const auto add = [&](bool has, const char* what) {
    if (has) report.features += std::string(", ") + what;
  };
  add(f.fp16, "fp16");
  add(f.int8, "int8");
  add(f.integer_dot, "integer dot product");
  add(f.cooperative_matrix, "cooperative matrix");
  add(f.timestamps, "timestamps");
  add(f.unified && f.host_import, "reads the model file in place");
  return report;
}

}  // namespace

std::string probe_devices(const ProbeRun& run, const DeviceOptions& base) {
  const auto asked = std::chrono::steady_clock::now();
  auto devices = list_devices();
  if (!devices) return devices.error().message;
  std::vector<DeviceReport> reports;
  for (const DeviceFacts& facts : *devices) reports.push_back(report_of(facts));
  device::probe_each(run, asked, std::move(reports), [&](std::size_t i, auto patience) -> Result<void> {
    DeviceOptions options = base;
    options.id = (*devices)[i].id;
    options.fence_deadline = patience;
    options.settle_deadline = {};  // the trial stays in any case
    auto device = Device::open(options);
    if (!device) return pass(device);
    return dispatch(*new Trial{std::move(*device), {}});
  });
  return devices->empty() ? "no Vulkan device" : "";
}

}  // namespace flyball::vulkan
