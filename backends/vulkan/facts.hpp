// What a Vulkan driver says of one device.
#pragma once

#include <cstdint>
#include <string>

#include "backends/device_report.hpp"

namespace flyball::vulkan {

struct DeviceFacts : DeviceIdentity {
  bool processor = false;  // software(): runs on this machine's own cores
  bool fp16 = false;       // arithmetic
  bool int8 = false;
  bool integer_dots = false;  // has products of packed 4 x 8 bits, fast or not
  bool integer_dot = false;   // accelerated, or asked for: products of quantized weights go by them
  bool cooperative_matrix = false;
  bool timestamps = false;
  bool host_visible = false;           // the host can write all of the device's memory
  bool host_import = false;            // VK_EXT_external_memory_host
  std::uint64_t import_alignment = 0;  // bytes, where host_import
  std::uint32_t subgroup_size = 1;
  std::uint32_t max_work_group = 0;  // invocations
  std::uint64_t max_allocation_bytes = 0;
  // Of a buffer that kernels may read by texel, at most; 0 where reading by address is as fast.
  std::uint64_t texel_bytes = 0;
  std::uint64_t storage_bytes = 0;  // of a buffer that a descriptor lets kernels write, at most
  // A processor passes one of eight values to all lanes by one instruction, if no compiler knows which.
  bool permutes = false;
  std::string lacks;  // what the engine needs and the device has not; "": nothing
};

}  // namespace flyball::vulkan
