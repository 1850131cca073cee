#include "config/child_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace flyball::config {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kNames{
    // the C library and its loader
    "PATH"sv,
    "HOME"sv,
    "USER"sv,
    "LOGNAME"sv,
    "TMPDIR"sv,
    "TZ"sv,
    "TZDIR"sv,
    "LANG"sv,
    "LANGUAGE"sv,
    "LOCPATH"sv,
    "LC_ALL"sv,
    "LC_CTYPE"sv,
    "LC_NUMERIC"sv,
    "LC_TIME"sv,
    "LC_COLLATE"sv,
    "LC_MONETARY"sv,
    "LC_MESSAGES"sv,
    "LC_PAPER"sv,
    "LC_NAME"sv,
    "LC_ADDRESS"sv,
    "LC_TELEPHONE"sv,
    "LC_MEASUREMENT"sv,
    "LC_IDENTIFICATION"sv,
    "GLIBC_TUNABLES"sv,
    "MALLOC_ARENA_MAX"sv,
    "MALLOC_CONF"sv,
    "LD_LIBRARY_PATH"sv,
    "LD_PRELOAD"sv,
    "LD_AUDIT"sv,
    "LD_BIND_NOW"sv,
    "LD_DEBUG"sv,
    "LD_DEBUG_OUTPUT"sv,
    // systemd: whether stderr is the journal, and the unit's directories without secrets
    "JOURNAL_STREAM"sv,
    "CACHE_DIRECTORY"sv,
    "STATE_DIRECTORY"sv,
    // Vulkan's loader and Mesa's drivers
    "VK_DRIVER_FILES"sv,
    "VK_ADD_DRIVER_FILES"sv,
    "VK_ICD_FILENAMES"sv,
    "VK_IMPLICIT_LAYER_PATH"sv,
    "VK_ADD_IMPLICIT_LAYER_PATH"sv,
    "VK_ADD_LAYER_PATH"sv,
    "VK_INSTANCE_LAYERS"sv,
    "ANV_DEBUG"sv,
    "INTEL_DEBUG"sv,
    "NVK_DEBUG"sv,
    "TU_DEBUG"sv,
    "AMD_DEBUG"sv,
    "AMD_VULKAN_ICD"sv,
    "ACO_DEBUG"sv,
    "NIR_DEBUG"sv,
    "V3D_DEBUG"sv,
    "PAN_MESA_DEBUG"sv,
    "DZN_DEBUG"sv,
    "DRI_PRIME"sv,
    "NODEVICE_SELECT"sv,
    "DRIRC_CONFIGDIR"sv,
    "LP_NUM_THREADS"sv,
    "LP_NATIVE_VECTOR_WIDTH"sv,
    "LP_DEBUG"sv,
    "LP_PERF"sv,
    // OpenCL's loaders and Mesa's rusticl
    "OPENCL_VENDOR_PATH"sv,
    "OPENCL_LAYERS"sv,
    "OPENCL_LAYER_PATH"sv,
    "RUSTICL_ENABLE"sv,
    "RUSTICL_FEATURES"sv,
    "RUSTICL_DEVICE_TYPE"sv,
    // NVIDIA's driver
    "CUDA_VISIBLE_DEVICES"sv,
    "CUDA_DEVICE_ORDER"sv,
    "CUDA_CACHE_PATH"sv,
    "CUDA_CACHE_DISABLE"sv,
    "CUDA_CACHE_MAXSIZE"sv,
    "CUDA_FORCE_PTX_JIT"sv,
    "CUDA_MPS_PIPE_DIRECTORY"sv,
    "CUDA_MPS_LOG_DIRECTORY"sv,
    "NVIDIA_VISIBLE_DEVICES"sv,
    "NVIDIA_DRIVER_CAPABILITIES"sv,
    "__NV_PRIME_RENDER_OFFLOAD"sv,
    "__NV_PRIME_RENDER_OFFLOAD_PROVIDER"sv,
    "__VK_LAYER_NV_optimus"sv,
    "__GL_SHADER_DISK_CACHE"sv,
    "__GL_SHADER_DISK_CACHE_PATH"sv,
    // AMD's and Intel's compute drivers
    "GPU_DEVICE_ORDINAL"sv,
    "GPU_MAX_ALLOC_PERCENT"sv,
    "GPU_SINGLE_ALLOC_PERCENT"sv,
    "GPU_MAX_HEAP_SIZE"sv,
    "HIP_VISIBLE_DEVICES"sv,
    "ROCR_VISIBLE_DEVICES"sv,
    "ROCM_PATH"sv,
    "HSA_OVERRIDE_GFX_VERSION"sv,
    "HSA_ENABLE_SDMA"sv,
    "HSA_XNACK"sv,
    "AMD_LOG_LEVEL"sv,
    "ZE_AFFINITY_MASK"sv,
    "ZE_FLAT_DEVICE_HIERARCHY"sv,
    "NEOReadDebugKeys"sv,
    "NEO_CACHE_PERSISTENT"sv,
    "NEO_CACHE_DIR"sv,
    "NEO_CACHE_MAX_SIZE"sv,
    // sanitizers and profiles
    "ASAN_OPTIONS"sv,
    "LSAN_OPTIONS"sv,
    "UBSAN_OPTIONS"sv,
    "TSAN_OPTIONS"sv,
    "MSAN_OPTIONS"sv,
    "ASAN_SYMBOLIZER_PATH"sv,
    "TSAN_SYMBOLIZER_PATH"sv,
    "LLVM_PROFILE_FILE"sv,
};

// Each family of variables has one reader: XDG's directories, the loaders of Vulkan and OpenCL, Mesa's
// drivers, PoCL.
constexpr std::array kFamilies{"XDG_"sv,  "VK_LOADER_"sv, "VK_LAYER_"sv, "MESA_"sv,
                               "RADV_"sv, "GALLIVM_"sv,   "OCL_ICD_"sv,  "POCL_"sv};

// A family's prefix does not keep others from naming a secret so.
bool names_a_secret(std::string_view name) noexcept {
  constexpr std::array kSecrets{"KEY"sv, "TOKEN"sv, "SECRET"sv, "PASS"sv, "CREDENTIAL"sv};
  return std::ranges::any_of(kSecrets, [&](std::string_view part) { return name.contains(part); });
}

}  // namespace

std::span<const std::string_view> child_variables() noexcept {
  return kNames;
}

std::span<const std::string_view> child_variable_families() noexcept {
  return kFamilies;
}

bool reaches_children(std::string_view name) noexcept {
  return std::ranges::find(kNames, name) != kNames.end() ||
         (!names_a_secret(name) &&
          std::ranges::any_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); }));
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
