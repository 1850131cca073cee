// What an engine will hold of a model, from the model's directory alone: each engine's footprint() makes the
// sums that its load and its reserve_kv() make, before a byte is allocated. A test holds them to each other.
#pragma once

#include <cstdint>

#include "backends/graph/memory_plan.hpp"

namespace flyball::graph {

struct FootprintShape {
  std::uint32_t step_tokens = 256;          // rows of one step
  std::uint32_t logit_rows = 8;             // sequences at once
  std::uint32_t context = kDefaultContext;  // positions of the longest sequence
  std::uint32_t kv_blocks = 0;
  kernels::DType kv_type = kernels::DType::f16;
  bool own_memory = false;         // the device has memory apart from the machine's
  std::uint64_t expert_bytes = 0;  // cpu: for a mixture's packed experts, at the most; 0: for all of them
};

// An engine's weights and scratch with the KV cache of `shape`, which is the same on all of them.
inline MemoryPlan with_kv(const model::ModelConfig& config, const FootprintShape& shape,
                          std::uint64_t weight_bytes, std::uint64_t scratch_bytes) {
  return {weight_bytes, kv_layout(config, shape.kv_type).block_bytes() * shape.kv_blocks, scratch_bytes};
}

}  // namespace flyball::graph
