// Asks the Vulkan driver for its devices and makes each of them run a small compute shader.
#pragma once

#include "backends/device_report.hpp"

namespace flyball::vulkan {

// Loads libvulkan.so.1 at run time. Drivers may crash or hang in here: only for a child process
// (`flyball probe --child vulkan`, daemon/route/probe).
DeviceProbe probe_devices();

}  // namespace flyball::vulkan
