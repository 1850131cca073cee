// Sizes follow from the shape alone; ModelConfig's limits keep every product below 64 bits.
#include "backends/graph/memory_plan.hpp"

#include <algorithm>
#include <string>

#include "backends/graph/decoder.hpp"

namespace flyball::graph {

KvLayout kv_layout(const model::ModelConfig& config, kernels::DType type) {
  KvLayout layout;
  layout.n_layers = config.n_layers;
  layout.n_kv_heads = config.n_kv_heads;
  layout.head_dim = config.head_dim;
  layout.type = type;
  return layout;
}

Result<kernels::DType> kv_type(std::string_view name, const model::ModelConfig& config) {
  if (name == "f16") return kernels::DType::f16;
  if (name != "q8_0")
    return fail(ErrorCode::unsupported_value,
                "A KV cache can be kept as f16 or q8_0, not as '" + std::string(name) + "'.", "kv_type");
  if (config.head_dim % kernels::kKvScaleValues != 0)
    return fail(ErrorCode::unsupported_value,
                "A KV cache of q8_0 needs heads of a multiple of " + std::to_string(kernels::kKvScaleValues) +
                    " values; the model's have " + std::to_string(config.head_dim) + ": f16 takes any.",
                "kv_type");
  return kernels::DType::q8_0;
}

Result<std::uint32_t> serving_context(std::uint32_t asked, const model::ModelConfig& config) {
  if (asked == 0) return std::min(config.context_length, kDefaultContext);
  if (asked > config.context_length)
    return fail(ErrorCode::invalid_value,
                "A context of " + std::to_string(asked) + " tokens is asked for; the model was made for " +
                    std::to_string(config.context_length) + ".",
                "context");
  return asked;
}

std::uint64_t kv_blocks(const KvLayout& layout, std::uint64_t tokens) noexcept {
  return (tokens + layout.block_size - 1) / layout.block_size;
}

std::uint64_t scratch_bytes(const model::ModelConfig& config, std::uint32_t step_tokens,
                            std::uint32_t logits_rows) noexcept {
  return plan_bytes(plan_buffers(config, step_tokens, logits_rows));
}

MemoryPlan plan_memory(const model::ModelConfig& config, std::uint64_t weight_bytes,
                       const PlanShape& shape) noexcept {
  const auto layout = kv_layout(config, shape.kv_type);
  MemoryPlan plan;
  plan.weight_bytes = weight_bytes;
  plan.kv_bytes = kv_blocks(layout, shape.context) * shape.sequences * layout.block_bytes();
  plan.scratch_bytes = scratch_bytes(config, shape.step_tokens, shape.sequences);
  return plan;
}

}  // namespace flyball::graph
