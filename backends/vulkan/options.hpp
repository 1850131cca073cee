// What may be asked of the Vulkan engine, free of Vulkan's own headers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backends/graph/kernel_times.hpp"
#include "backends/graph/load_progress.hpp"

namespace flyball::vulkan {

// Kinds of calls that a driver may fail at any time. settle: the last wait for a device that has failed.
enum class Call : std::uint8_t { allocate, import, build, record, submit, wait, settle };

// What lives on a device through one engine. When an engine has gone, or failed half-way, nothing may be
// left.
struct Books {
  std::atomic<std::int64_t> live{0};    // objects: the device, memory, pipelines, command buffers
  std::atomic<std::uint64_t> bytes{0};  // of memory that the device gave
  std::atomic<bool> abandoned{false};   // the device did not come to rest: nothing of it is released
};

struct DeviceOptions {
  std::string name;  // part of the device's id or its driver's name; "": the best that is no processor
  std::string id;    // the whole id of one device, and no other is opened; "": by name
  bool allow_processor = false;        // take a software device where there is no other; implied by a name
  std::uint64_t allocation_limit = 0;  // bytes held at once; 0: what the device has
  // Bytes that the machine may still take, 0 where it does not say; absent: device::available_memory. Devices
  // that work in the machine's memory are given no more.
  std::function<std::uint64_t()> available_memory;
  // No answer for so long is a lost device. Longer than any step: the step budget aims at 150 ms.
  std::chrono::microseconds fence_deadline{30'000'000};
  // How long a device that failed may take to come to rest. Beyond it, it is left alone until the process
  // ends.
  std::chrono::microseconds settle_deadline{30'000'000};
  // Asked before each call; not 0: that VkResult is what the call gives. Tests fail the nth call by it.
  std::function<int(Call)> interceptor;
  std::function<void(std::shared_ptr<const Books>)> on_open;  // the books outlive the device
  // Not null: kernels are timed by the device's clock, into this, when all that was submitted is waited for.
  // It outlives the device. Opening one without timestamps is then model_unavailable.
  graph::KernelTimes* times = nullptr;
  // Products of quantized weights by packed integer dot products, where the device has them; absent: where it
  // says that they are fast.
  std::optional<bool> integer_dot;
  bool validate = false;  // with the Khronos validation layer, where it is installed
  std::function<void(const std::string&)> on_validation;  // what the layer says
};

enum class WeightsIn : std::uint8_t {
  automatic,  // the first of the others that the device can
  file,       // the file's own pages, imported: nothing is copied
  shared,     // copied once into device memory that the host can write
  staged,     // copied through a staging buffer into device memory
};
const char* to_string(WeightsIn in) noexcept;  // as receipts and logs say it

struct VulkanDeviceOptions {
  DeviceOptions device;
  std::filesystem::path pipeline_cache;  // folder; "": pipelines are compiled at every start
  WeightsIn weights = WeightsIn::automatic;
  std::uint64_t weight_window =
      1ULL << 30;                       // bytes of a buffer of weights; two fit where a driver gives 2 GiB
  std::uint32_t max_step_tokens = 512;  // rows of one step
  std::uint32_t max_logit_rows = 16;    // rows of one step whose logits may be wanted: sequences at once
  bool stage_kv = false;                // move KV blocks as if the host did not reach the device's memory
  std::uint32_t context = 0;            // positions of the longest sequence; 0: the model's
  graph::LoadProgress progress;
  std::function<void(const std::string&)> warn;  // of what is worked around, one sentence
  // Keeps what the model's bytes lie in: held on to where a device that reads them does not come to rest.
  std::shared_ptr<const void> model_owner;
};

}  // namespace flyball::vulkan
