// Sizes follow from the shape alone; ModelConfig's limits keep every product below 64 bits.
#include "backends/graph/memory_plan.hpp"

#include <algorithm>
#include <string>

#include "backends/graph/decoder.hpp"

namespace flyball::graph {

KvLayout kv_layout(const model::ModelConfig& config) {
  KvLayout layout;
  layout.n_layers = config.n_layers;
  layout.n_kv_heads = config.n_kv_heads;
  layout.head_dim = config.head_dim;
  return layout;
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
  const auto layout = kv_layout(config);
  MemoryPlan plan;
  plan.weight_bytes = weight_bytes;
  plan.kv_bytes = kv_blocks(layout, shape.context) * shape.sequences * layout.block_bytes();
  plan.scratch_bytes = scratch_bytes(config, shape.step_tokens, shape.sequences);
  return plan;
}

}  // namespace flyball::graph
