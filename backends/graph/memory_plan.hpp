// Bytes a model needs on a device: weights, KV cache and scratch, computed before anything is allocated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "backends/model/model_config.hpp"
#include "kernels/formats/kv_page.hpp"

namespace flyball::graph {

struct KvLayout {
  std::uint32_t block_size = 16;  // positions per KV block
  std::uint32_t n_layers = 0, n_kv_heads = 0, head_dim = 0;
  kernels::DType type = kernels::DType::f16;  // or q8_0
  // Keys, or values, of one KV head in one block of one layer.
  std::uint64_t page_bytes() const noexcept { return kernels::kv_page_bytes(type, block_size, head_dim); }
  // Keys and values of one block over all layers.
  std::uint64_t block_bytes() const noexcept { return 2 * page_bytes() * n_kv_heads * n_layers; }
};
// Precondition: kv_type() gave the type for this model.
KvLayout kv_layout(const model::ModelConfig& config, kernels::DType type = kernels::DType::f16);

// "f16" or "q8_0", which is half the bytes: twice the tokens in the same memory, and at long contexts half
// the reading, for a rounding of keys and values. unsupported_value: no such type, or q8_0 for heads that are
// no multiple of 32 values.
Result<kernels::DType> kv_type(std::string_view name, const model::ModelConfig& config);

struct MemoryPlan {
  std::uint64_t weight_bytes = 0;  // as held by the device (repacked copies included)
  std::uint64_t kv_bytes = 0;
  std::uint64_t scratch_bytes = 0;  // activations for the largest step
  std::uint64_t total() const noexcept { return weight_bytes + kv_bytes + scratch_bytes; }
};

// The context a sequence is served with where nobody names one, or the model's own if that is shorter.
inline constexpr std::uint32_t kDefaultContext = 4096;
// asked: 0 for the default. invalid_value: more than the model was made for.
Result<std::uint32_t> serving_context(std::uint32_t asked, const model::ModelConfig& config);
// Positions that a device has to be ready for. context: 0 for all that the model was made for.
inline std::uint32_t longest_sequence(std::uint32_t context, const model::ModelConfig& config) noexcept {
  return context == 0 ? config.context_length : std::min(context, config.context_length);
}

// Blocks that hold `tokens` positions of one sequence.
std::uint64_t kv_blocks(const KvLayout& layout, std::uint64_t tokens) noexcept;

// The decoder's buffers: f32 activations of the largest step and the logits of its sequences. A device adds
// its own forms of them.
std::uint64_t scratch_bytes(const model::ModelConfig& config, std::uint32_t step_tokens,
                            std::uint32_t logits_rows) noexcept;

struct PlanShape {
  std::uint32_t context = kDefaultContext;  // tokens of one sequence
  std::uint32_t sequences = 1;
  std::uint32_t step_tokens = 256;  // token budget of a step
  kernels::DType kv_type = kernels::DType::f16;
};
// Before anything is opened on a device: what the file's weights, the KV cache and the activations come to.
// Precondition: context <= model::kMaxContext, so that nothing overflows.
MemoryPlan plan_memory(const model::ModelConfig& config, std::uint64_t weight_bytes,
                       const PlanShape& shape) noexcept;

}  // namespace flyball::graph
