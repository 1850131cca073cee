// Several OpenCL devices for tests: PoCL offers this machine's processor as often as it is asked to. Asked for
// before the first OpenCL call of a process, and so in programs of their own.
#pragma once

#include <string>
#include <vector>

#include "tests/backends/opencl/support.hpp"

namespace flyball::test {

inline constexpr std::size_t kManyDevices = 3;

inline bool has_many_devices() {
  setenv("POCL_DEVICES", "pthread pthread pthread", 1);
  own_pocl_cache();
  const auto api = opencl::load_api();
  return api && opencl::find_devices(**api).size() >= kManyDevices;
}

inline std::vector<opencl::DeviceOptions> any_devices(std::size_t n) {
  return std::vector<opencl::DeviceOptions>(n, any_device());
}

}  // namespace flyball::test
