#include "daemon/probe/device_memory.hpp"

#include <algorithm>
#include <optional>

#include "daemon/probe/hardware_facts.hpp"

namespace flyball::probe {
namespace {

constexpr std::uint64_t kMostBytes = 1ULL << 50U;  // of one device: sums stay far from any limit

// Of two APIs. By what both tell; a name is what is left where they tell nothing in common, and then two of
// the same name are taken for one: too little memory rather than too much.
bool same_hardware(const DeviceReport& a, const DeviceReport& b) {
  if (!a.pci.empty() && !b.pci.empty()) return a.pci == b.pci;
  if (!a.uuid.empty() && !b.uuid.empty()) return a.uuid == b.uuid;
  return a.name == b.name;
}

// The devices that an engine opens, if all of them have memory of their own; else none.
std::vector<const DeviceReport*> opened(const DeviceProbe& probe, const std::vector<std::string>& ids) {
  std::vector<const DeviceReport*> out;
  for (const std::string& id : ids) {
    if (!has_own_memory(probe, id)) return {};
    out.push_back(&*std::ranges::find(probe.devices, id, &DeviceReport::id));
  }
  return out;
}

std::uint64_t bytes_of(const DeviceReport& device) {
  return std::min(device.memory_bytes, kMostBytes);
}

fleet::DeviceMemory pool_of(std::vector<const DeviceReport*> devices) {
  fleet::DeviceMemory pool;
  std::ranges::sort(devices, {}, &DeviceReport::name);
  for (const DeviceReport* device : devices) {
    pool.name += (pool.name.empty() ? "" : ", ") + device->name;
    pool.bytes += bytes_of(*device);
  }
  return pool;
}

}  // namespace

std::vector<fleet::DeviceMemory> device_memory(const HardwareReport& report,
                                               const std::vector<std::string>& opencl_ids,
                                               const std::vector<std::string>& vulkan_ids) {
  const auto opencl = opened(report.opencl, opencl_ids), vulkan = opened(report.vulkan, vulkan_ids);
  // OpenCL's, and of Vulkan's those that are none of them. Each of OpenCL's is one of Vulkan's at most.
  std::vector<const DeviceReport*> all = opencl;
  std::vector<bool> shared(opencl.size());
  for (const DeviceReport* device : vulkan) {
    std::size_t i = 0;
    while (i < opencl.size() && (shared[i] || !same_hardware(*opencl[i], *device))) ++i;
    if (i < opencl.size())
      shared[i] = true;
    else
      all.push_back(device);
  }
  const fleet::EngineMemory by_opencl{"opencl", pool_of(opencl).bytes},
      by_vulkan{"vulkan", pool_of(vulkan).bytes};
  std::vector<fleet::DeviceMemory> pools;
  const auto add = [&](const std::vector<const DeviceReport*>& devices,
                       std::vector<fleet::EngineMemory> engines) {
    if (devices.empty()) return;
    pools.push_back(pool_of(devices));
    pools.back().backends = std::move(engines);
  };
  if (std::ranges::find(shared, true) != shared.end()) {
    add(all, {by_opencl, by_vulkan});
  } else {
    add(opencl, {by_opencl});
    add(vulkan, {by_vulkan});
  }
  return pools;
}

}  // namespace flyball::probe
