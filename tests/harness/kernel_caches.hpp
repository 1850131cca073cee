// Compiled kernels that tests share: in the build's own folder, because every test is a process and compiling is slow.
// Nothing that a user has is touched. An entry is known by its digest, so a test never finds kernels of other sources.
#pragma once

#include <stdlib.h>

#include <filesystem>

namespace flyball::test {

// An engine's cache_dir.
inline std::filesystem::path kernel_caches() {
  return FLYBALL_BINARY_DIR "/test-kernels";
}
// The folders that an engine makes of its cache_dir.
inline std::filesystem::path shared_programs() {
  return kernel_caches() / "opencl";
}
inline std::filesystem::path shared_pipelines() {
  return kernel_caches() / "vulkan";
}

// PoCL compiles to this build's folder, not to its user's.
inline void own_pocl_cache() {
  const std::filesystem::path dir = kernel_caches() / "pocl";
  std::filesystem::create_directories(dir);
  setenv("POCL_CACHE_DIR", dir.c_str(), 1);
}

}  // namespace flyball::test
