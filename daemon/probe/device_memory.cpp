#include "daemon/probe/device_memory.hpp"

#include <algorithm>
#include <ranges>

#include "daemon/probe/hardware_facts.hpp"
#include "daemon/probe/same_hardware.hpp"

namespace flyball::probe {
namespace {

constexpr std::uint64_t kMostBytes = 1ULL << 50U;  // of one device: sums stay far from any limit

// The devices that an engine opens, if all of them have memory of their own; else none.
std::vector<ProbedDevice> opened(const DeviceProbe& probe, const std::vector<std::string>& ids) {
  std::vector<ProbedDevice> out;
  for (const std::string& id : ids) {
    if (!has_own_memory(probe, id)) return {};
    out.push_back({&probe, &*std::ranges::find(probe.devices, id, &DeviceReport::id)});
  }
  return out;
}

std::uint64_t bytes_of(const DeviceReport& device) {
  return std::min(device.memory_bytes, kMostBytes);
}

fleet::DeviceMemory pool_of(std::vector<ProbedDevice> devices) {
  fleet::DeviceMemory pool;
  std::ranges::sort(devices, {}, [](const ProbedDevice& d) { return d.device->name; });
  for (const ProbedDevice& d : devices) {
    pool.name += (pool.name.empty() ? "" : ", ") + d.device->name;
    pool.bytes += bytes_of(*d.device);
  }
  return pool;
}

}  // namespace

std::vector<fleet::DeviceMemory> device_memory(const HardwareReport& report,
                                               const config::PerKind<std::vector<std::string>>& ids) {
  struct Shared {
    std::vector<ProbedDevice> devices;
    std::vector<fleet::EngineMemory> engines;
  };
  std::vector<Shared> groups;
  // From the last kind on: its report says what a device that several kinds open is called, and how large it
  // is.
  for (const config::EngineKind& kind : std::views::reverse(config::kEngineKinds)) {
    const auto own = opened(report.devices[kind], ids[kind]);
    if (own.empty()) continue;
    Shared joined{{}, {}};
    std::vector<bool> known(own.size());  // under another kind's report
    std::erase_if(groups, [&](Shared& group) {
      std::vector<bool> taken(group.devices.size());  // each is one of this kind's devices at most
      for (std::size_t i = 0; i < own.size(); ++i)
        for (std::size_t j = 0; j < taken.size(); ++j)
          if (!taken[j] && same_hardware(group.devices[j], own[i])) {
            taken[j] = known[i] = true;
            break;
          }
      if (std::ranges::find(taken, true) == taken.end()) return false;
      joined.devices.insert(joined.devices.end(), group.devices.begin(), group.devices.end());
      joined.engines.insert(joined.engines.end(), group.engines.begin(), group.engines.end());
      return true;
    });
    for (std::size_t i = 0; i < own.size(); ++i)
      if (!known[i]) joined.devices.push_back(own[i]);
    joined.engines.push_back({std::string(kind.id), pool_of(own).bytes});
    groups.push_back(std::move(joined));
  }
  std::vector<fleet::DeviceMemory> pools;
  for (Shared& group : groups) {
    pools.push_back(pool_of(group.devices));
    pools.back().backends = std::move(group.engines);
  }
  return pools;
}

}  // namespace flyball::probe
