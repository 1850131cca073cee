#include "backends/local/predict.hpp"

#include <algorithm>

#include "backends/cpu/footprint.hpp"
#include "backends/device/memory.hpp"
#include "backends/opencl/footprint.hpp"
#include "backends/vulkan/footprint.hpp"

namespace flyball::local {
namespace {

graph::MemoryPlan on_cpu(const model::ModelFile& model, const LocalBackendOptions& options,
                         graph::FootprintShape shape) {
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const graph::MemoryPlan all = cpu::footprint(model, kernels, shape);
  if (model.config().n_experts == 0) return all;
  // Fewer than a layer's is an error, which the load gives; until then it is what it would have needed.
  shape.expert_bytes =
      std::max(expert_bytes_limit(model, options), cpu::expert_bytes(model, kernels).one_layer);
  return cpu::footprint(model, kernels, shape);
}

}  // namespace

std::uint64_t expert_bytes_limit(const model::ModelFile& model, const LocalBackendOptions& options) {
  if (model.config().n_experts == 0 || options.backend != "cpu" || options.expert_bytes != 0)
    return options.expert_bytes;
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const cpu::ExpertBytes experts = cpu::expert_bytes(model, kernels);
  const std::uint64_t others = cpu::footprint(model, kernels, {}).weight_bytes - experts.all;
  const std::uint64_t room =
      options.memory_capacity != 0 ? options.memory_capacity : device::available_memory();
  return std::max(experts.one_layer, (room - std::min(room, others)) / 4 * 3);
}

Result<MemoryNeed> predict_memory(const model::ModelFile& model, const LocalBackendOptions& options,
                                  bool own_memory) {
  const model::ModelConfig& config = model.config();
  auto context = graph::serving_context(options.context, config);
  if (!context) return pass(context);
  auto kv_type = graph::kv_type(options.kv_type, config);
  if (!kv_type) return pass(kv_type);
  const graph::KvLayout layout = graph::kv_layout(config, *kv_type);
  const std::uint64_t one = graph::kv_blocks(layout, *context);
  const std::uint64_t blocks = options.kv_blocks != 0 ? options.kv_blocks : one * options.max_sequences;

  graph::FootprintShape shape;
  shape.step_tokens = std::max(options.step_tokens, options.max_sequences);
  shape.logit_rows = options.max_sequences;
  shape.context = *context;
  shape.kv_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, UINT32_MAX));
  shape.kv_type = *kv_type;
  shape.own_memory = own_memory;

  graph::MemoryPlan plan;
  if (options.backend == "cpu")
    plan = on_cpu(model, options, shape);
  else if (options.backend == "opencl")
    plan = opencl::footprint(model, shape);
  else if (options.backend == "vulkan")
    plan = vulkan::footprint(model, shape);
  else
    return fail(ErrorCode::unsupported_value, "There is no engine named '" + options.backend + "'.",
                "backend");
  return MemoryNeed{plan.weight_bytes, plan.scratch_bytes, plan.kv_bytes,
                    std::min(one, blocks) * layout.block_bytes()};
}

}  // namespace flyball::local
