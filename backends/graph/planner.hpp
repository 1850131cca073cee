// What fits where: a model of known size against memories of known size, and the longest context that still
// fits. Pure; what a model's parts take is memory_plan's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/graph/memory_plan.hpp"

namespace flyball::graph {

// A memory that weights, KV cache and scratch of one engine lie in together.
struct PlanPool {
  std::string name;
  std::uint64_t bytes = 0;  // free for this model
  // Of what weights and scratch leave of it, eighths that a KV cache may have there.
  std::uint32_t kv_eighths = 8;
};
// As kv_room() leaves them: the machine's memory has others who want it, a device's own almost none.
inline constexpr std::uint32_t kMachineKvEighths = 2, kDeviceKvEighths = 7;

struct PoolPlan {
  PlanPool pool;
  std::uint64_t kv_room = 0;    // bytes that the KV cache may have there; 0 also where the rest does not fit
  std::uint64_t missing = 0;    // bytes by which weights and scratch are too large for it
  std::uint64_t sequences = 0;  // of the planned context that fit at once
  // Tokens that each of the planned sequences can have at most; 0: the model does not fit.
  std::uint32_t longest_context = 0;
  bool fits = false;  // all of the planned sequences
};

// Precondition: shape.context <= config.context_length, shape.sequences > 0.
PoolPlan plan_pool(const model::ModelConfig& config, const MemoryPlan& plan, const PlanShape& shape,
                   const PlanPool& pool);

// Layers whose rows attend to a window alone. Their KV is kept all the same: a block's life is that of all
// layers.
std::uint32_t windowed_layers(const model::ModelConfig& config) noexcept;

// "multi-head", "grouped-query" or "multi-query".
const char* attention_kind(const model::ModelConfig& config) noexcept;

}  // namespace flyball::graph
