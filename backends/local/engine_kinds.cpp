#include "backends/local/engine_kinds.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/footprint.hpp"
#include "backends/device/memory.hpp"
#include "backends/graph/layer_split.hpp"
#include "backends/opencl/ceilings.hpp"
#include "backends/opencl/footprint.hpp"
#include "backends/opencl/opencl_device.hpp"
#include "backends/opencl/probe.hpp"
#include "backends/opencl/tuning_db.hpp"
#include "backends/vulkan/ceilings.hpp"
#include "backends/vulkan/footprint.hpp"
#include "backends/vulkan/probe.hpp"
#include "backends/vulkan/vulkan_device.hpp"

namespace flyball::local {
namespace {

constexpr std::uint64_t kReadBytes = 256ULL << 20;  // beyond the caches of the devices in view
constexpr int kRounds = 3;  // the fastest counts: others may have used the device meanwhile

// ---- the CPU's --------------------------------------------------------------------------------------------

// A scored prompt takes a step for so many of its tokens, and each step reads all weights: at 64 rows the
// products take most of its time. They cost 32 MB of a vocabulary of 128 Ki tokens. On GPUs, which read
// faster, attention keeps scratch for each row, and a step has one for each sequence.
constexpr std::uint32_t kCpuLogitRows = 64;

std::uint32_t cpu_logit_rows(const LocalBackendOptions& options, std::uint32_t step_tokens) {
  return std::max(options.max_sequences, std::min(step_tokens, kCpuLogitRows));
}

graph::MemoryPlan cpu_footprint(const model::ModelFile& model, const LocalBackendOptions& options,
                                const graph::FootprintShape& shape) {
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  graph::FootprintShape bounded = shape;
  bounded.logit_rows = cpu_logit_rows(options, shape.step_tokens);
  if (model.config().n_experts == 0) return cpu::footprint(model, kernels, bounded);
  // Fewer than a layer's is an error, which the load gives; until then it is what it would have needed.
  bounded.expert_bytes =
      std::max(expert_bytes_limit(model, options), cpu::expert_bytes(model, kernels).one_layer);
  return cpu::footprint(model, kernels, bounded);
}

Result<OpenedDevice> open_cpu(const OpenRequest& request) {
  const LocalBackendOptions& options = request.options;
  cpu::CpuDeviceOptions device;
  device.threads = options.threads;
  device.times = options.kernel_times;
  device.expert_bytes_limit = options.expert_bytes;
  device.max_step_tokens = request.step_tokens;
  device.max_logit_rows = cpu_logit_rows(options, request.step_tokens);
  device.progress = options.progress;
  auto executor = cpu::make_cpu_executor(*request.model, device);
  if (!executor) return pass(executor);
  OpenedDevice opened;
  opened.executor = std::move(*executor);
  opened.logit_rows = device.max_logit_rows;
  opened.kv_room.bytes = device::available_memory() / 4;
  return opened;
}

// ---- the GPUs' --------------------------------------------------------------------------------------------

template <class Options>
void set_gpu_options(Options& device, const OpenRequest& request) {
  device.warn = request.options.warn;
  device.max_step_tokens = request.step_tokens;
  device.max_logit_rows = request.options.max_sequences;
  device.context = request.context;
  device.progress = request.options.progress;
  device.model_owner = request.model;
}

// The folder of a kind's compiled kernels; "": none are kept.
std::filesystem::path kernel_folder(const LocalBackendOptions& options, const config::EngineKind& kind) {
  return options.cache_dir.empty() ? std::filesystem::path() : options.cache_dir / kind.id;
}

template <class Opened>
Result<DeviceRates> best_rates(Result<std::unique_ptr<Opened>> opened) {
  if (!opened) return pass(opened);
  DeviceRates best;
  for (int round = 0; round < kRounds; ++round) {
    auto read = (*opened)->read();
    if (!read) return pass(read);
    auto added = (*opened)->multiply_add();
    if (!added) return pass(added);
    best.read = std::max(best.read, *read);
    best.multiply_add = std::max(best.multiply_add, *added);
  }
  return best;
}

graph::MemoryPlan vulkan_footprint(const model::ModelFile& model, const LocalBackendOptions&,
                                   const graph::FootprintShape& shape) {
  return vulkan::footprint(model, shape);
}

Result<OpenedDevice> open_vulkan(const OpenRequest& request) {
  vulkan::VulkanDeviceOptions device;
  device.device = request.options.vulkan;
  device.device.times = request.options.kernel_times;
  device.pipeline_cache = kernel_folder(request.options, config::kVulkan);
  set_gpu_options(device, request);
  auto executor = vulkan::make_vulkan_executor(*request.model, device);
  if (!executor) return pass(executor);
  OpenedDevice opened;
  const vulkan::DeviceFacts& facts = (*executor)->facts();
  const graph::DevicePart all{{facts.id, (*executor)->free_bytes(), facts.unified},
                              request.model->config().n_layers};
  opened.kv_room = graph::kv_room({&all, 1}, device::available_memory());
  opened.executor = std::move(*executor);
  opened.logit_rows = device.max_logit_rows;
  return opened;
}

std::string probe_vulkan(const ProbeRun& run) {
  return vulkan::probe_devices(run);
}

Result<std::vector<DeviceRates>> vulkan_rates(const LocalBackendOptions& options) {
  auto rates = best_rates(vulkan::DeviceCeilings::open(options.vulkan, kReadBytes));
  if (!rates) return pass(rates);
  return std::vector<DeviceRates>{*rates};
}

graph::MemoryPlan opencl_footprint(const model::ModelFile& model, const LocalBackendOptions&,
                                   const graph::FootprintShape& shape) {
  return opencl::footprint(model, shape);
}

Result<OpenedDevice> open_opencl(const OpenRequest& request) {
  opencl::OpenClDeviceOptions device;
  device.devices = request.options.opencl;
  for (opencl::DeviceOptions& each : device.devices) each.times = request.options.kernel_times;
  device.least_kv_bytes = request.least_kv_bytes;
  device.program_cache = kernel_folder(request.options, config::kOpenCl);
  device.tuning = opencl::tuning_directory(request.options.cache_dir);
  set_gpu_options(device, request);
  auto executor = opencl::make_opencl_executor(*request.model, device);
  if (!executor) return pass(executor);
  std::vector<graph::DevicePart> rooms;
  for (const opencl::DevicePart& p : (*executor)->parts())
    rooms.push_back({{p.facts.id, p.free_bytes, p.facts.unified}, p.part.n_layers()});
  OpenedDevice opened;
  opened.kv_room = graph::kv_room(rooms, device::available_memory());
  opened.executor = std::move(*executor);
  opened.logit_rows = device.max_logit_rows;
  return opened;
}

std::string probe_opencl(const ProbeRun& run) {
  return opencl::probe_devices(run);
}

Result<std::vector<DeviceRates>> opencl_rates(const LocalBackendOptions& options) {
  std::vector<DeviceRates> out;
  for (const opencl::DeviceOptions& device : options.opencl) {
    auto rates = best_rates(opencl::DeviceCeilings::open(device, kReadBytes));
    if (!rates) return pass(rates);
    out.push_back(*rates);
  }
  return out;
}

constexpr std::array kEngines{
    EngineFunctions{config::kCpu, &cpu_footprint, &open_cpu, nullptr, nullptr},
    EngineFunctions{config::kVulkan, &vulkan_footprint, &open_vulkan, &probe_vulkan, &vulkan_rates},
    EngineFunctions{config::kOpenCl, &opencl_footprint, &open_opencl, &probe_opencl, &opencl_rates},
};

// Every kind has its functions, and a kind with devices all of them.
consteval bool complete() {
  if (kEngines.size() != config::kEngineKinds.size()) return false;
  for (std::size_t i = 0; i < kEngines.size(); ++i) {
    const EngineFunctions& engine = kEngines[i];
    const bool devices = engine.kind.has_devices();
    if (engine.kind.id != config::kEngineKinds[i].id || (engine.probe != nullptr) != devices ||
        (engine.measure_rates != nullptr) != devices || engine.kind.most_devices > kMaxDevices)
      return false;
  }
  return true;
}
static_assert(complete());

}  // namespace

const EngineFunctions* find_engine(std::string_view id) noexcept {
  for (const EngineFunctions& engine : kEngines)
    if (engine.kind.id == id) return &engine;
  return nullptr;
}

std::uint64_t expert_bytes_limit(const model::ModelFile& model, const LocalBackendOptions& options) {
  if (model.config().n_experts == 0 || options.backend != config::kCpu.id || options.expert_bytes != 0)
    return options.expert_bytes;
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const cpu::ExpertBytes experts = cpu::expert_bytes(model, kernels);
  const std::uint64_t others = cpu::footprint(model, kernels, {}).weight_bytes - experts.all;
  const std::uint64_t room =
      options.memory_capacity != 0 ? options.memory_capacity : device::available_memory();
  return std::max(experts.one_layer, (room - std::min(room, others)) / 4 * 3);
}

}  // namespace flyball::local
