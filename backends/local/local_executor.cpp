#include "backends/local/local_executor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/device/memory.hpp"
#include "backends/graph/layer_split.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/opencl_device.hpp"
#include "backends/opencl/tuning_db.hpp"
#include "backends/vulkan/vulkan_device.hpp"

namespace flyball::local {
namespace {

constexpr std::uint32_t kMaxSequences = 256;
constexpr std::uint32_t kMaxStepTokens = 4096;

Result<std::uint32_t> choose_kv_blocks(const LocalBackendOptions& options, const graph::KvLayout& layout,
                                       std::uint32_t context, const graph::KvRoom& room) {
  if (options.kv_blocks != 0) return options.kv_blocks;
  const std::uint64_t one = graph::kv_blocks(layout, context);
  // What was agreed on with others is of a pool; of several devices' own memory one may have less room.
  const bool limited =
      options.kv_bytes_limit != 0 && !(options.own_memory && room.bytes < options.kv_bytes_limit);
  const auto [limit, device] = limited ? graph::KvRoom{options.kv_bytes_limit, {}} : room;
  const std::uint64_t fits = limit / layout.block_bytes();
  if (fits < one)
    return fail(ErrorCode::insufficient_memory,
                "The KV cache of one sequence of " + std::to_string(context) + " tokens needs " +
                    std::to_string(one * layout.block_bytes()) + " bytes; " + std::to_string(limit) +
                    " are free for it" + (device.empty() ? "" : " by what is left of " + device) + ".",
                "context");
  return static_cast<std::uint32_t>(std::min({fits, one * options.max_sequences, std::uint64_t{UINT32_MAX}}));
}

Result<void> check_options(const LocalBackendOptions& options) {
  if (options.backend != "cpu" && options.backend != "vulkan" && options.backend != "opencl")
    return fail(ErrorCode::unsupported_value,
                "This build has no engine named '" + options.backend + "'; it has: cpu, vulkan, opencl.",
                "backend");
  const auto within = [](const char* name, std::uint32_t value, std::uint32_t most) -> Result<void> {
    if (value >= 1 && value <= most) return {};
    return fail(ErrorCode::invalid_value,
                std::string(name) + " is " + std::to_string(value) + "; it must be 1 to " +
                    std::to_string(most) + ".",
                name);
  };
  if (auto ok = within("max_sequences", options.max_sequences, kMaxSequences); !ok) return ok;
  if (auto ok = within("devices", static_cast<std::uint32_t>(options.opencl.size()), kMaxDevices); !ok)
    return ok;
  if (options.backend == "vulkan" && options.opencl.size() > 1)
    return fail(ErrorCode::unsupported_value, "The Vulkan engine runs on one device; several are named.",
                "device");
  return within("step_tokens", options.step_tokens, kMaxStepTokens);
}

graph::KvRoom kv_room(std::span<const opencl::DevicePart> parts) {
  std::vector<graph::DevicePart> rooms;
  for (const opencl::DevicePart& p : parts)
    rooms.push_back({{p.facts.id, p.free_bytes, p.facts.unified}, p.part.n_layers()});
  return graph::kv_room(rooms, device::available_memory());
}

struct OpenedDevice {
  std::unique_ptr<device::Executor> executor;
  graph::KvRoom kv_room;
};

// What the options of both GPU engines have alike.
template <class Options>
void set_gpu_options(Options& device, const LocalBackendOptions& options,
                     const std::shared_ptr<const model::ModelFile>& model, std::uint32_t step_tokens,
                     std::uint32_t context) {
  device.warn = options.warn;
  device.max_step_tokens = step_tokens;
  device.max_logit_rows = options.max_sequences;
  device.context = context;
  device.progress = options.progress;
  device.model_owner = model;
}

Result<OpenedDevice> open_vulkan(const LocalBackendOptions& options,
                                 const std::shared_ptr<const model::ModelFile>& model,
                                 std::uint32_t step_tokens, std::uint32_t context) {
  vulkan::VulkanDeviceOptions device;
  device.device = options.vulkan;
  device.device.times = options.kernel_times;
  if (!options.cache_dir.empty()) device.pipeline_cache = options.cache_dir / "vulkan";
  set_gpu_options(device, options, model, step_tokens, context);
  auto executor = vulkan::make_vulkan_executor(*model, device);
  if (!executor) return pass(executor);
  OpenedDevice opened;
  const vulkan::DeviceFacts& facts = (*executor)->facts();
  const std::uint64_t free_bytes = (*executor)->free_bytes();
  const graph::DevicePart all{{facts.id, free_bytes, facts.unified}, model->config().n_layers};
  opened.kv_room = graph::kv_room({&all, 1}, device::available_memory());
  opened.executor = std::move(*executor);
  return opened;
}

// least_kv_bytes: of the cache that was asked for, or of one sequence's, without which the engine is of no
// use.
Result<OpenedDevice> open_device(const LocalBackendOptions& options,
                                 const std::shared_ptr<const model::ModelFile>& model,
                                 std::uint32_t step_tokens, std::uint32_t context,
                                 std::uint64_t least_kv_bytes) {
  OpenedDevice opened;
  if (options.backend == "cpu") {
    cpu::CpuDeviceOptions device;
    device.threads = options.threads;
    device.times = options.kernel_times;
    device.expert_bytes_limit = options.expert_bytes;
    device.max_step_tokens = step_tokens;
    device.max_logit_rows = options.max_sequences;
    device.progress = options.progress;
    auto executor = cpu::make_cpu_executor(*model, device);
    if (!executor) return pass(executor);
    opened.executor = std::move(*executor);
    opened.kv_room.bytes = device::available_memory() / 4;
    return opened;
  }
  if (options.backend == "vulkan") return open_vulkan(options, model, step_tokens, context);
  opencl::OpenClDeviceOptions device;
  device.devices = options.opencl;
  for (opencl::DeviceOptions& each : device.devices) each.times = options.kernel_times;
  device.least_kv_bytes = least_kv_bytes;
  if (!options.cache_dir.empty()) device.program_cache = options.cache_dir / "opencl";
  device.tuning = opencl::tuning_directory(options.cache_dir);
  set_gpu_options(device, options, model, step_tokens, context);
  auto executor = opencl::make_opencl_executor(*model, device);
  if (!executor) return pass(executor);
  opened.kv_room = kv_room((*executor)->parts());
  opened.executor = std::move(*executor);
  return opened;
}

Result<std::unique_ptr<model::ModelFile>> open_file(const LocalBackendOptions& options) {
  if (!options.path.empty()) return model::ModelFile::open(options.path);
  const auto demo = model::embedded_demo_model();
  if (demo.empty())
    return fail(ErrorCode::model_unavailable, "This build has no embedded demo model; name a model file.",
                "path");
  return model::ModelFile::from_bytes(demo);
}

}  // namespace

Result<std::shared_ptr<const model::ModelFile>> open_local_model(const LocalBackendOptions& options) {
  if (auto ok = check_options(options); !ok) return pass(ok);
  auto model = open_file(options);
  if (!model) return pass(model);
  auto context = graph::serving_context(options.context, (*model)->config());
  if (!context) return pass(context);
  (*model)->serve(*context);
  return std::shared_ptr<const model::ModelFile>(std::move(*model));
}

Result<LocalExecutor> open_local_executor(const LocalBackendOptions& options,
                                          std::shared_ptr<const model::ModelFile> model) {
  LocalExecutor out;
  auto context = graph::serving_context(options.context, model->config());
  if (!context) return pass(context);
  auto kv_type = graph::kv_type(options.kv_type, model->config());
  if (!kv_type) return pass(kv_type);
  out.context = *context;
  out.step_tokens = std::max(options.step_tokens, options.max_sequences);
  out.layout = graph::kv_layout(model->config(), *kv_type);
  const std::uint64_t least_blocks =
      options.kv_blocks != 0 ? options.kv_blocks : graph::kv_blocks(out.layout, *context);
  auto device =
      open_device(options, model, out.step_tokens, *context, least_blocks * out.layout.block_bytes());
  if (!device) return pass(device);
  out.executor = std::move(device->executor);
  // After the weights are in: what is left is what the cache may have.
  auto blocks = choose_kv_blocks(options, out.layout, *context, device->kv_room);
  if (!blocks) return pass(blocks);
  if (auto ok = out.executor->reserve_kv(out.layout, *blocks); !ok) return pass(ok);
  out.kv_blocks = *blocks;
  out.model = std::move(model);
  return out;
}

}  // namespace flyball::local
