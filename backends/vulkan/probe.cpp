// By the very calls that the engine makes (device.cpp): what passes here passes there.
#include "backends/vulkan/probe.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

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
  Device& device = *trial.device;
  const std::uint32_t constants[] = {kGroup};
  auto kernel = device.pipeline("probe", constants, sizeof(ElementwisePush));
  if (!kernel) return std::unexpected(std::move(kernel.error()));
  auto buffer = device.allocate(kProbeElements * sizeof(std::uint32_t), "the probe", Place::shared);
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  trial.buffer = std::move(*buffer);
  const std::span data(reinterpret_cast<std::uint32_t*>(trial.buffer.host()), kProbeElements);
  for (std::uint32_t i = 0; i < kProbeElements; ++i) data[i] = ~i;
  const ElementwisePush push{trial.buffer.address(), 0, kProbeElements, 0};
  auto ok = device.run([&](Commands& c) { c.dispatch(*kernel, push, {kProbeElements / kGroup, 1, 1}); });
  if (!ok) return ok;
  for (std::uint32_t i = 0; i < kProbeElements; ++i)
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
  report.unified = f.unified;
  report.kind = f.kind;
  report.uuid = f.uuid;
  report.pci = f.pci;
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
  std::ranges::stable_partition(*devices, [](const DeviceFacts& f) { return !f.processor; });
  for (std::size_t i = 0; i < devices->size(); ++i) {
    const DeviceFacts& facts = (*devices)[i];
    DeviceReport report = report_of(facts);
    const auto trial = new Trial;
    DeviceOptions options = base;
    options.id = facts.id;
    options.fence_deadline = patience_with_next(asked, run, devices->size() - i);
    options.settle_deadline = {};  // the trial stays in any case
    auto device = Device::open(options);
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
  return devices->empty() ? "no Vulkan device" : "";
}

}  // namespace flyball::vulkan
