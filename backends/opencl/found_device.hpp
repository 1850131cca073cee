// The OpenCL devices of this machine and what their drivers say of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/device_report.hpp"
#include "backends/opencl/api.hpp"
#include "backends/opencl/options.hpp"

namespace flyball::opencl {

struct DeviceFacts : DeviceIdentity {
  bool processor = false;  // software(), unless a Pretence has it pass for a GPU
  std::string platform;
  bool fp16 = false, subgroups = false, integer_dot = false;
  std::uint32_t compute_units = 0;
  std::uint32_t max_work_group = 0;
  std::uint32_t vector_floats = 1;  // the driver's native vector of floats
  std::uint64_t max_allocation_bytes = 0, local_bytes = 0;
  std::uint32_t base_alignment = 0;  // bytes, of buffers over host memory
};

struct FoundDevice {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  DeviceFacts facts;
};

// In the drivers' order, which a process and its children see alike.
std::vector<FoundDevice> find_devices(const Api& api);

// One for each of the options, none twice: two that fit the same device get it and the next best.
// model_unavailable: no device that fits; names those that there are.
Result<std::vector<FoundDevice>> choose_found(std::span<const FoundDevice> devices,
                                              std::span<const DeviceOptions> options);

}  // namespace flyball::opencl
