// The SPIR-V of kernels/vulkan, as it is in the binary: "rms_norm", and per format "matvec_q8_0" (the
// format's name as kernels::DType has it, in small letters).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace flyball::vulkan {

// Aligned to 4 bytes. Empty: there is no such kernel.
std::span<const std::byte> shader(std::string_view name) noexcept;

}  // namespace flyball::vulkan
