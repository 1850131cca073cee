#include "daemon/fleet/pools.hpp"

#include <algorithm>
#include <limits>

#include "config/engine_kinds.hpp"

namespace flyball::fleet {
namespace {

// Far beyond any machine, and sums of many do not overflow.
constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max() >> 8U;

std::uint64_t capacity(std::uint64_t total, std::optional<std::uint64_t> reserve, std::uint64_t limit) {
  const std::uint64_t kept = reserve.value_or(config::default_reserve(total));
  const std::uint64_t rest = total == 0 ? kUnbounded : total - std::min(total, kept);
  return limit == 0 ? rest : std::min(rest, limit);
}

}  // namespace

std::vector<MemoryPool> memory_pools(const config::MemoryRules& rules, std::uint64_t machine_bytes,
                                     const std::vector<DeviceMemory>& devices) {
  std::vector<MemoryPool> pools{{"machine", capacity(machine_bytes, rules.reserve, rules.limit), true}};
  for (const DeviceMemory& device : devices)
    pools.push_back({device.name, capacity(device.bytes, rules.device_reserve, rules.device_limit), false});
  return pools;
}

std::size_t pool_of(const std::string& backend, const std::vector<DeviceMemory>& devices) {
  const auto has = [&](const DeviceMemory& device) {
    return std::ranges::find(device.backends, config::kind_of(backend), &EngineMemory::backend) !=
           device.backends.end();
  };
  const auto at = std::ranges::find_if(devices, has);
  return at == devices.end() ? 0 : 1 + static_cast<std::size_t>(at - devices.begin());
}

std::vector<EngineMemory> engines_of(const config::MemoryRules& rules, const DeviceMemory& device) {
  std::vector<EngineMemory> out = device.backends;
  for (EngineMemory& engine : out)
    engine.bytes = capacity(engine.bytes, rules.device_reserve, rules.device_limit);
  return out;
}

std::uint64_t most_of(const std::string& backend, const config::MemoryRules& rules,
                      const std::vector<DeviceMemory>& devices) {
  for (const DeviceMemory& device : devices)
    for (const EngineMemory& engine : engines_of(rules, device))
      if (engine.backend == config::kind_of(backend)) return engine.bytes;
  return kUnbounded;
}

std::optional<std::uint64_t> MemoryStatus::free_for(const std::string& backend) const {
  if (pools.empty()) return std::nullopt;
  for (const PoolStatus& pool : pools)
    for (const EngineMemory& engine : pool.backends)
      if (engine.backend == config::kind_of(backend)) return std::min(pool.free, engine.bytes);
  return pools[kMachinePool].free;
}

std::uint64_t available_to_engines(const config::MemoryRules& rules, std::uint64_t machine_bytes,
                                   std::uint64_t available_bytes) noexcept {
  if (available_bytes == 0) return Governor::kUnknown;
  const std::uint64_t kept = rules.reserve.value_or(config::default_reserve(machine_bytes));
  return available_bytes - std::min(available_bytes, kept);
}

GovernorLimits governor_limits(const config::MemoryRules& rules) noexcept {
  GovernorLimits limits;
  limits.turn = rules.turn;
  limits.linger = std::min(limits.linger, rules.turn);
  limits.max_wait = rules.max_wait;
  return limits;
}

}  // namespace flyball::fleet
