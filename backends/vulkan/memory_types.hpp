// Which of a device's kinds of memory a buffer is made in. Free of Vulkan's own headers: flags are those of
// VkMemoryPropertyFlags.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/vulkan/device.hpp"

namespace flyball::vulkan {

inline constexpr std::uint32_t kDeviceLocal = 1, kHostVisible = 2, kHostCoherent = 4, kHostCached = 8;

struct MemoryWish {
  std::uint32_t needed = 0, liked = 0;
};
MemoryWish wish_of(Place place, bool unified) noexcept;

// Of the types a buffer may have (bit i of `allowed`: type i), those with all that is needed: the ones with
// most that is liked first, in the driver's order between equals.
std::vector<std::uint32_t> memory_types(std::span<const std::uint32_t> flags, std::uint32_t allowed,
                                        const MemoryWish& wish);

}  // namespace flyball::vulkan
