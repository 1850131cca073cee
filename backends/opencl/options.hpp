// What may be asked of the OpenCL engine, free of OpenCL's own headers.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/graph/kernel_times.hpp"
#include "backends/graph/load_progress.hpp"

namespace flyball::opencl {

struct Objects;  // objects.hpp

// Kinds of calls that a driver may fail at any time. allocate: also the first use, where many drivers take
// the memory. answer: of every wait, that of an allocation too, where to fail is to give none in time.
// settle: the last wait for a device that has failed.
enum class Call : std::uint8_t { allocate, build, enqueue, wait, answer, settle };

// What a device says of itself in place of what its driver says, so that one can stand in for others in
// tests. 0 and false: what the driver says.
struct Pretence {
  bool gpu = false;  // no processor: kernels and work-groups as GPUs get them
  std::uint64_t local_bytes = 0;
  std::uint32_t kernel_items = 0;  // work-items of a group of any kernel, said once it is built
};

struct DeviceOptions {
  std::string name;  // part of the device's id or its driver's name; "": the best that is no processor
  std::string id;    // the whole id of one device, and no other is opened; "": by name
  bool allow_processor = false;        // take a software device where there is no other; implied by a name
  std::uint64_t allocation_limit = 0;  // bytes held at once; 0: what the device has
  // No answer for so long is a lost device. Longer than any step: the step budget aims at 150 ms.
  std::chrono::microseconds fence_deadline{30'000'000};
  // How long a device that failed may take to come to rest. Beyond it, it is left alone: nothing of it is
  // released, nothing that it may still touch is freed, until the process ends.
  std::chrono::microseconds settle_deadline{30'000'000};
  // Asked before each call; not 0: that error is what the call gives. Tests fail the nth call by it.
  std::function<int(Call)> interceptor;
  Pretence pretence;
  // Not null: kernels are timed by the device's clock, into this, as they are waited for. It outlives the
  // device.
  graph::KernelTimes* times = nullptr;
  // Told what the device's objects are counted in; it outlives them.
  std::function<void(std::shared_ptr<const Objects>)> on_open;
};

struct OpenClDeviceOptions {
  // At least one. Over several the model's layers are split, in this order.
  std::vector<DeviceOptions> devices = std::vector<DeviceOptions>(1);
  std::uint64_t least_kv_bytes = 0;     // of all layers: what the split leaves room for at the least
  std::filesystem::path program_cache;  // "": programs are compiled at every start
  std::filesystem::path tuning;         // tuning_directory(); "": the shipped tuning
  bool upload = false;                  // copy the weights even where the device could read the host's
  std::uint32_t max_step_tokens = 512;  // rows of one step
  std::uint32_t max_logit_rows = 16;    // rows of one step whose logits may be wanted: sequences at once
  std::uint32_t context = 0;            // positions of the longest sequence; 0: the model's
  graph::LoadProgress progress;
  std::function<void(const std::string&)> warn;  // of what is worked around, one sentence
  // Keeps what the model's bytes lie in: held on to where a device that reads them does not come to rest.
  std::shared_ptr<const void> model_owner;
};

}  // namespace flyball::opencl
