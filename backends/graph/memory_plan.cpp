// Sizes follow from the shape alone; ModelConfig's limits keep every product below 64 bits.
#include "backends/graph/memory_plan.hpp"

namespace flyball::graph {

KvLayout kv_layout(const model::ModelConfig& config) {
  KvLayout layout;
  layout.n_layers = config.n_layers;
  layout.n_kv_heads = config.n_kv_heads;
  layout.head_dim = config.head_dim;
  return layout;
}

std::uint64_t kv_blocks(const KvLayout& layout, std::uint64_t tokens) noexcept {
  return (tokens + layout.block_size - 1) / layout.block_size;
}

std::uint64_t scratch_bytes(const model::ModelConfig& config, std::uint32_t step_tokens,
                            std::uint32_t logits_rows) noexcept {
  const std::uint64_t heads = std::uint64_t{config.n_heads} * config.head_dim;
  const std::uint64_t kv_heads = std::uint64_t{config.n_kv_heads} * config.head_dim;
  // Per token: the residual stream, its normed copy, q, k, v, the attention's output, gate and up.
  const std::uint64_t per_token = 2ULL * config.dim + 2 * heads + 2 * kv_heads + 2ULL * config.ffn_dim;
  return sizeof(float) * (per_token * step_tokens + std::uint64_t{config.vocab_size} * logits_rows);
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
