#include "backends/vulkan/shaders.hpp"

#include "embedded/vulkan_shaders.hpp"  // made by CMakeLists.txt: kShaders, names and what gives their bytes

namespace flyball::vulkan {

std::span<const std::byte> shader(std::string_view name) noexcept {
  for (const auto& [known, bytes] : embedded::kShaders)
    if (known == name) return bytes();
  return {};
}

}  // namespace flyball::vulkan
