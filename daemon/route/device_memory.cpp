#include "daemon/route/device_memory.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "daemon/route/hardware_facts.hpp"

namespace flyball::route {
namespace {

struct Pool {
  std::multiset<std::string> names;  // of its devices: an API does not say which of another API's is the same
  fleet::DeviceMemory memory;
};

// Engines that work on the same device share a pool, which is all the devices they work on: what each of them
// holds there is in nobody's pool but that.
void add(std::vector<Pool>& pools, const std::string& backend, const DeviceProbe& probe,
         const std::vector<std::string>& ids) {
  const auto own = [&](const std::string& id) { return has_own_memory(probe, id); };
  if (ids.empty() || !std::ranges::all_of(ids, own)) return;
  Pool pool{{}, {"", 0, {{backend, 0}}}};
  std::map<std::string, std::uint64_t> bytes;  // of one device by name
  for (const std::string& id : ids) {
    const auto device = std::ranges::find(probe.devices, id, &DeviceReport::id);
    pool.names.insert(device->name);
    bytes[device->name] = std::min<std::uint64_t>(device->memory_bytes, 1ULL << 50U);
    pool.memory.bytes += bytes[device->name];
  }
  pool.memory.backends[0].bytes = pool.memory.bytes;
  const auto shares = [&](const Pool& other) {
    return std::ranges::any_of(pool.names, [&](const auto& name) { return other.names.contains(name); });
  };
  const auto same = std::ranges::find_if(pools, shares);
  if (same == pools.end()) {
    pools.push_back(std::move(pool));
    return;
  }
  same->memory.backends.push_back(pool.memory.backends[0]);
  for (const auto& [name, size] : bytes)
    while (same->names.count(name) < pool.names.count(name)) {
      same->names.insert(name);
      same->memory.bytes += size;
    }
}

}  // namespace

std::vector<fleet::DeviceMemory> device_memory(const HardwareReport& report,
                                               const std::vector<std::string>& opencl_ids,
                                               const std::vector<std::string>& vulkan_ids) {
  std::vector<Pool> pools;
  add(pools, "opencl", report.opencl, opencl_ids);
  add(pools, "vulkan", report.vulkan, vulkan_ids);
  std::vector<fleet::DeviceMemory> out;
  for (Pool& pool : pools) {
    for (const std::string& name : pool.names)
      pool.memory.name += (pool.memory.name.empty() ? "" : ", ") + name;
    out.push_back(std::move(pool.memory));
  }
  return out;
}

}  // namespace flyball::route
