#include "backends/graph/planner.hpp"

#include <algorithm>

namespace flyball::graph {

PoolPlan plan_pool(const model::ModelConfig& config, const MemoryPlan& plan, const PlanShape& shape,
                   const PlanPool& pool) {
  PoolPlan out;
  out.pool = pool;
  const std::uint64_t fixed = plan.weight_bytes + plan.scratch_bytes;
  if (fixed > pool.bytes) {
    out.missing = fixed - pool.bytes;
    return out;
  }
  const std::uint64_t left = pool.bytes - fixed;
  out.kv_room = left / 8 * pool.kv_eighths + left % 8 * pool.kv_eighths / 8;
  const KvLayout layout = kv_layout(config, shape.kv_type);
  const std::uint64_t blocks = out.kv_room / layout.block_bytes();
  out.sequences = blocks / kv_blocks(layout, shape.context);
  out.fits = out.sequences >= shape.sequences;
  out.longest_context = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(blocks / shape.sequences * layout.block_size, config.context_length));
  return out;
}

std::uint32_t windowed_layers(const model::ModelConfig& config) noexcept {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < config.n_layers; ++i) n += config.layer(i).window != 0 ? 1U : 0U;
  return n;
}

const char* attention_kind(const model::ModelConfig& config) noexcept {
  if (config.n_kv_heads == config.n_heads) return "multi-head";
  return config.n_kv_heads == 1 ? "multi-query" : "grouped-query";
}

}  // namespace flyball::graph
