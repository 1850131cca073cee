// The shape of a model, read from its file's metadata and validated: every count is positive and bounded,
// every division below is exact. Everything after this point may trust these numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/model/gguf.hpp"
#include "config/error.hpp"
#include "kernels/formats/rope_style.hpp"

namespace flyball::model {

enum class RopeScaling : std::uint8_t { none, linear, yarn, llama3 };

// Limits of the shape: generous to every published model, small enough that no product below overflows 64
// bits.
inline constexpr std::uint64_t kMaxLayers = 1024, kMaxHeads = 1024, kMaxHeadDim = 512;
inline constexpr std::uint64_t kMaxDim = 131'072, kMaxFfnDim = 1'048'576, kMaxVocab = 4'194'304;
inline constexpr std::uint64_t kMaxContext = 16'777'216;
inline constexpr std::uint64_t kMaxExperts = 1024, kMaxExpertsUsed = 64;

struct RopeConfig {
  std::uint32_t dim = 0;   // rotated values per head, even, <= head_dim
  float base = 10'000.0F;  // theta
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0F;                 // linear, yarn: >= 1 stretches the context
  std::uint32_t original_context = 0;  // yarn: positions before scaling
  // rope.scaling.attn_factor as the file has it, whatever the scaling: multiplies cos and sin, for yarn
  // together with 1 + 0.1 ln(factor).
  float attn_factor = 1.0F;
  float beta_fast = 32.0F, beta_slow = 1.0F;  // yarn: rotations between which the two angles are blended
  std::vector<float> frequency_factors;       // llama3 and longrope: divides each frequency; [dim/2] or empty
};

struct ModelConfig {
  std::string architecture;  // "llama" (with experts: Mixtral), "qwen2", "qwen3", "qwen3moe"
  std::string name;          // general.name, printable(): it goes into logs and terminals; "" if absent
  std::uint32_t n_layers = 0;
  std::uint32_t dim = 0;                                    // embedding length
  std::uint32_t ffn_dim = 0;                                // feed-forward length; 0 with experts
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;  // n_heads % n_kv_heads == 0
  std::uint32_t vocab_size = 0;
  std::uint32_t context_length = 0;  // what it was trained for
  float norm_eps = 1e-5F;
  RopeConfig rope;
  kernels::RopeStyle rope_style = kernels::RopeStyle::interleaved;
  bool tied_embeddings = false;  // no output.weight: the embedding table is used
  bool qkv_bias = false;         // q, k and v have a bias each
  bool qk_norm = false;          // every head of q and of k is normed before it is rotated
  // Mixture of experts: every layer has n_experts feed-forwards, each token uses n_experts_used of them.
  std::uint32_t n_experts = 0;  // 0: dense, and the other two are 0
  std::uint32_t n_experts_used = 0, expert_ffn_dim = 0;
};

// model_invalid (value, limit and key), also for architectures this build does not know.
Result<ModelConfig> read_model_config(const Gguf& file);

}  // namespace flyball::model
