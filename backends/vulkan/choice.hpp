// Which of the devices that a driver has is meant. Free of Vulkan's own headers.
#pragma once

#include <cstddef>
#include <span>

#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/options.hpp"
#include "config/error.hpp"

namespace flyball::vulkan {

// model_unavailable: none, or one that lacks what the engine needs; the message says which there are.
Result<std::size_t> choose_found(std::span<const DeviceFacts> devices, const DeviceOptions& options);

}  // namespace flyball::vulkan
