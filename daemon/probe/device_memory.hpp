// Which devices' own memory the engines' models lie in.
#pragma once

#include <string>
#include <vector>

#include "daemon/fleet/fleet.hpp"
#include "daemon/probe/probe.hpp"

namespace flyball::probe {

// A pool for each set of devices that an engine opens and that all have memory of their own. Engines that
// open the same device (same_hardware) share one, of the devices of all of them. Neither may have more than
// its own devices; whether these have room for it, where others' lie on more of them, it learns at its load.
std::vector<fleet::DeviceMemory> device_memory(const HardwareReport& report,
                                               const config::PerKind<std::vector<std::string>>& ids);

}  // namespace flyball::probe
