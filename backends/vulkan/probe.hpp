// Asks the Vulkan driver for its devices and makes each of them run a small compute shader.
#pragma once

#include <string>

#include "backends/device_report.hpp"
#include "backends/vulkan/options.hpp"

namespace flyball::vulkan {

// Loads libvulkan.so.1 at run time. Drivers may crash or hang in here: only for a child process
// (`flyball probe --child vulkan`, daemon/probe/probe). GPUs first. Gives why nothing could be asked, "" if
// it could. base: tests make its calls fail.
std::string probe_devices(const ProbeRun& run, const DeviceOptions& base = {});

}  // namespace flyball::vulkan
