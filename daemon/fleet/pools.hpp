// The pools of memory that engines draw from, as the configuration bounds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/fleet/governor.hpp"

namespace flyball::fleet {

inline constexpr std::size_t kMachinePool = 0;
// The machine's first, then one for each of `devices`. machine_bytes: 0: the system does not say.
std::vector<MemoryPool> memory_pools(const config::MemoryRules& rules, std::uint64_t machine_bytes,
                                     const std::vector<DeviceMemory>& devices);
// Which of them an engine's model lies in.
std::size_t pool_of(const std::string& backend, const std::vector<DeviceMemory>& devices);
// Those that draw from it, with what each may have at most, as the configuration bounds it.
std::vector<EngineMemory> engines_of(const config::MemoryRules& rules, const DeviceMemory& device);
// What such an engine may have at most; of the machine's memory: more than there is.
std::uint64_t most_of(const std::string& backend, const config::MemoryRules& rules,
                      const std::vector<DeviceMemory>& devices);
// Of the machine's memory what the system would give to engines now, the reserve left alone.
// available_bytes: 0: the system does not say.
std::uint64_t available_to_engines(const config::MemoryRules& rules, std::uint64_t machine_bytes,
                                   std::uint64_t available_bytes) noexcept;
GovernorLimits governor_limits(const config::MemoryRules& rules) noexcept;

}  // namespace flyball::fleet
