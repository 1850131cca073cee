// Whether a device that says it is fast at packed integer dot products computes them right: the kernels that
// stand on them were checked on software devices alone, and a wrong one gives wrong text and no error.
#pragma once

#include <cstdint>
#include <span>

#include "backends/vulkan/device.hpp"

namespace flyball::vulkan {

// Every kernel of matmul_dot's computes by the instruction that this tries, with bytes of all signs.
// model_unsupported, insufficient_memory, device_lost.
Result<bool> dots_are_right(Device& device);

// words: pairs of four signed bytes each; dots: what a device makes of each pair.
bool dots_are_right(std::span<const std::uint32_t> words, std::span<const std::int32_t> dots) noexcept;

}  // namespace flyball::vulkan
