// The OpenCL engine's executor: brings a model to one device, or its layers to several, builds or loads the
// kernels, and runs the decoder's ops as kernels on the devices' queues. The twin of backends/cpu/cpu_device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/device/executor.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/options.hpp"

namespace flyball::opencl {

// What an OpenCL engine did so far that its Executor interface does not say, over all devices.
struct OpenClStatistics {
  std::uint32_t programs_compiled = 0, programs_from_cache = 0;
  bool weights_in_place = false;                           // on every device
  std::uint64_t result_bytes = 0;                          // read from the last device after steps
  std::uint32_t products_planned = 0, products_tuned = 0;  // the latter by what `flyball tune` found
};

// A device, which layers it has, and what it could still hold.
struct DevicePart {
  DeviceFacts facts;
  graph::ModelPart part;
  std::uint64_t free_bytes = 0;
};

struct OpenClExecutor : device::Executor {
  virtual std::vector<DevicePart> parts() const = 0;  // at least one, in order of layers
  virtual OpenClStatistics statistics() const noexcept = 0;
};

// model_unavailable (no device), model_unsupported (a kernel that one never builds), insufficient_memory,
// unsupported_value (also: more devices than layers), device_lost. The model must outlive the executor.
Result<std::unique_ptr<OpenClExecutor>> make_opencl_executor(const model::ModelFile& model,
                                                             const OpenClDeviceOptions& options);

}  // namespace flyball::opencl
