#include "daemon/cli/machine_pools.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

#include "backends/device/memory.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/probe/hardware_facts.hpp"

namespace flyball::cli {
namespace {

void add_devices(std::vector<MachinePool>& pools, const config::EngineKind& kind, const DeviceProbe& probe,
                 const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    const auto device = std::ranges::find(probe.devices, id, &DeviceReport::id);
    if (device == probe.devices.end()) continue;
    const std::uint64_t bytes =
        device->unified ? std::min(device->memory_bytes, device::available_memory()) : device->memory_bytes;
    pools.push_back({std::string(kind.id),
                     {std::string(kind.id) + " on " + id, bytes,
                      device->unified ? graph::kMachineKvEighths : graph::kDeviceKvEighths}});
  }
}

}  // namespace

std::vector<MachinePool> machine_pools(Hardware& hardware, const config::Config& config,
                                       const std::string& backend) {
  std::vector<MachinePool> pools;
  for (const config::EngineKind& kind : config::kEngineKinds) {
    if (backend != kAllEngines && backend != kind.id) continue;
    if (!kind.has_devices()) {
      pools.push_back({std::string(kind.id),
                       {std::string(kind.id) + ", in this machine's memory", device::available_memory(),
                        graph::kMachineKvEighths}});
      continue;
    }
    const probe::HardwareReport& report = hardware.report();
    const auto ids = probe::opened_devices(report, config.devices);
    add_devices(pools, kind, report.devices[kind], ids[kind]);
  }
  return pools;
}

std::string pool_argument(const graph::PlanPool& pool) {
  return std::to_string(pool.bytes) + ":" + std::to_string(pool.kv_eighths) + ":" + pool.name;
}

std::optional<graph::PlanPool> pool_from_argument(const std::string& text) {
  graph::PlanPool pool;
  const char* const end = text.data() + text.size();
  const auto bytes = std::from_chars(text.data(), end, pool.bytes);
  if (bytes.ec != std::errc() || bytes.ptr == end || *bytes.ptr != ':') return std::nullopt;
  const auto eighths = std::from_chars(bytes.ptr + 1, end, pool.kv_eighths);
  if (eighths.ec != std::errc() || eighths.ptr == end || *eighths.ptr != ':' || pool.kv_eighths > 8)
    return std::nullopt;
  pool.name = std::string(eighths.ptr + 1, end);
  return pool;
}

nlohmann::ordered_json pool_json(const graph::PoolPlan& plan) {
  return {{"pool", plan.pool.name},
          {"bytes", plan.pool.bytes},
          {"kv_room_bytes", plan.kv_room},
          {"fits", plan.fits},
          {"sequences", plan.sequences},
          {"missing_bytes", plan.missing},
          {"longest_context", plan.longest_context}};
}

}  // namespace flyball::cli
