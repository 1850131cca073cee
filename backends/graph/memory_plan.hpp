// Bytes a model needs on a device: weights, KV cache and scratch, computed before anything is allocated.
#pragma once

#include <cstdint>

#include "backends/model/model_config.hpp"

namespace flyball::graph {

struct KvLayout {
  std::uint32_t block_size = 16;  // positions per KV block
  std::uint32_t n_layers = 0, n_kv_heads = 0, head_dim = 0;
  // f16 keys and values of one block over all layers.
  std::uint64_t block_bytes() const noexcept {
    return 2ULL * 2 * block_size * n_layers * n_kv_heads * head_dim;
  }
};
KvLayout kv_layout(const model::ModelConfig& config);

struct MemoryPlan {
  std::uint64_t weight_bytes = 0;   // as held by the device (repacked copies included)
  std::uint64_t kv_bytes = 0;
  std::uint64_t scratch_bytes = 0;  // activations for the largest step
  std::uint64_t total() const noexcept { return weight_bytes + kv_bytes + scratch_bytes; }
};

}  // namespace flyball::graph
