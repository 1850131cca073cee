#include "backends/vulkan/memory_types.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace flyball::vulkan {

MemoryWish wish_of(Place place, bool unified) noexcept {
  constexpr std::uint32_t kMapped = kHostVisible | kHostCoherent;
  switch (place) {
    case Place::device:
      return {kDeviceLocal, unified ? kMapped | kHostCached : 0};
    case Place::shared:
      return {kMapped, kDeviceLocal};
    case Place::readback:
      return {kMapped, kHostCached};
  }
  return {};
}

std::vector<std::uint32_t> memory_types(std::span<const std::uint32_t> flags, std::uint32_t allowed,
                                        const MemoryWish& wish) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < flags.size(); ++i)
    if ((allowed >> i & 1U) != 0 && (flags[i] & wish.needed) == wish.needed) out.push_back(i);
  std::ranges::stable_sort(out, std::greater{},
                           [&](std::uint32_t i) { return std::popcount(flags[i] & wish.liked); });
  return out;
}

}  // namespace flyball::vulkan
