#include "daemon/route/device_memory.hpp"

#include <algorithm>
#include <set>

#include "daemon/route/hardware_facts.hpp"

namespace flyball::route {
namespace {

void add(std::vector<fleet::DeviceMemory>& pools, const std::string& backend, const DeviceProbe& probe,
         const std::vector<std::string>& ids) {
  const auto own = [&](const std::string& id) { return has_own_memory(probe, id); };
  if (ids.empty() || !std::ranges::all_of(ids, own)) return;
  fleet::DeviceMemory memory{"", 0, {backend}};
  std::multiset<std::string> names;
  for (const std::string& id : ids) {
    const auto device = std::ranges::find(probe.devices, id, &DeviceReport::id);
    names.insert(device->name);
    memory.bytes += std::min<std::uint64_t>(device->memory_bytes, 1ULL << 50U);
  }
  for (const std::string& name : names) memory.name += (memory.name.empty() ? "" : ", ") + name;
  const auto same = std::ranges::find(pools, memory.name, &fleet::DeviceMemory::name);
  if (same == pools.end()) {
    pools.push_back(std::move(memory));
  } else {
    same->backends.push_back(backend);
  }
}

}  // namespace

std::vector<fleet::DeviceMemory> device_memory(const HardwareReport& report,
                                               const std::vector<std::string>& opencl_ids,
                                               const std::vector<std::string>& vulkan_ids) {
  std::vector<fleet::DeviceMemory> pools;
  add(pools, "opencl", report.opencl, opencl_ids);
  add(pools, "vulkan", report.vulkan, vulkan_ids);
  return pools;
}

}  // namespace flyball::route
