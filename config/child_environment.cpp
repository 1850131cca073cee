#include "config/child_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace flyball::config {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kNames{
    // the C library and the system
    "PATH"sv, "HOME"sv, "USER"sv, "LOGNAME"sv, "TMPDIR"sv, "TZ"sv, "LANG"sv, "LANGUAGE"sv, "GLIBC_TUNABLES"sv,
    "MALLOC_ARENA_MAX"sv, "LD_LIBRARY_PATH"sv, "LD_PRELOAD"sv, "LD_AUDIT"sv, "LD_BIND_NOW"sv, "LD_DEBUG"sv,
    "LD_DEBUG_OUTPUT"sv,
    // systemd: whether stderr is the journal, and the directories of the unit that hold no secret
    "JOURNAL_STREAM"sv, "CACHE_DIRECTORY"sv, "STATE_DIRECTORY"sv,
    // which devices the vendors' drivers show, and how they behave
    "CUDA_VISIBLE_DEVICES"sv, "CUDA_DEVICE_ORDER"sv, "CUDA_CACHE_PATH"sv, "CUDA_CACHE_DISABLE"sv,
    "NVIDIA_VISIBLE_DEVICES"sv, "NVIDIA_DRIVER_CAPABILITIES"sv, "GPU_DEVICE_ORDINAL"sv, "HIP_VISIBLE_DEVICES"sv,
    "ROCR_VISIBLE_DEVICES"sv, "HSA_OVERRIDE_GFX_VERSION"sv, "ZE_AFFINITY_MASK"sv, "AMD_DEBUG"sv, "AMD_VULKAN_ICD"sv,
    "INTEL_DEBUG"sv, "ANV_DEBUG"sv, "NVK_DEBUG"sv, "TU_DEBUG"sv, "DRI_PRIME"sv,
    // lavapipe
    "LP_NUM_THREADS"sv, "LP_NATIVE_VECTOR_WIDTH"sv, "LP_DEBUG"sv, "LP_PERF"sv,
    // OpenCL's loaders
    "OPENCL_VENDOR_PATH"sv, "OPENCL_LAYERS"sv,
    // sanitizers
    "ASAN_OPTIONS"sv, "LSAN_OPTIONS"sv, "UBSAN_OPTIONS"sv, "TSAN_OPTIONS"sv, "MSAN_OPTIONS"sv,
    "ASAN_SYMBOLIZER_PATH"sv, "TSAN_SYMBOLIZER_PATH"sv, "LLVM_PROFILE_FILE"sv,
};

// Families of variables that have one reader each: locales, XDG directories, the loaders of Vulkan and OpenCL, Mesa's
// drivers and PoCL.
constexpr std::array kFamilies{"LC_"sv,   "XDG_"sv,  "VK_"sv,      "OCL_ICD_"sv,
                               "MESA_"sv, "RADV_"sv, "GALLIVM_"sv, "POCL_"sv};

}  // namespace

std::span<const std::string_view> child_variables() noexcept {
  return kNames;
}

std::span<const std::string_view> child_variable_families() noexcept {
  return kFamilies;
}

bool reaches_children(std::string_view name) noexcept {
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); });
}

std::vector<std::string> child_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const std::size_t equals = text.find('='); reaches_children(text.substr(0, equals)))
      entries.emplace_back(text);
  }
  return entries;
}

std::vector<char*> environment_block(std::vector<std::string>& entries) {
  std::vector<char*> block;
  for (std::string& entry : entries) block.push_back(entry.data());
  block.push_back(nullptr);
  return block;
}

}  // namespace flyball::config
