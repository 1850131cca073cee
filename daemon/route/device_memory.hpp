// Which devices' own memory the engines' models lie in.
#pragma once

#include <string>
#include <vector>

#include "daemon/fleet/fleet.hpp"
#include "daemon/route/probe.hpp"

namespace flyball::route {

// A pool for each set of devices that an engine opens and that all have memory of their own. Two engines that
// open a device of the same name share one, of the devices of both: both APIs show the same hardware. An engine
// that opens fewer of them than the pool has learns at its load if its own do not have room.
std::vector<fleet::DeviceMemory> device_memory(const HardwareReport& report,
                                               const std::vector<std::string>& opencl_ids,
                                               const std::vector<std::string>& vulkan_ids);

}  // namespace flyball::route
