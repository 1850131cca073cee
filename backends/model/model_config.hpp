// The shape of a model, read from its file's metadata and validated: every count is positive and bounded,
// every division below is exact. Everything after this point may trust these numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/rope_config.hpp"
#include "config/error.hpp"
#include "kernels/formats/activation.hpp"
#include "kernels/formats/rope_style.hpp"

namespace flyball::model {

// Limits of the shape: generous to every published model, small enough that no product below overflows 64
// bits.
inline constexpr std::uint64_t kMaxLayers = 1024, kMaxHeads = 1024, kMaxHeadDim = 512;
inline constexpr std::uint64_t kMaxDim = 131'072, kMaxFfnDim = 1'048'576, kMaxVocab = 4'194'304;
inline constexpr std::uint64_t kMaxContext = 16'777'216;
inline constexpr std::uint64_t kMaxExperts = 1024, kMaxExpertsUsed = 64;

// What layers of one model may differ in.
struct LayerShape {
  std::uint32_t window = 0;  // positions that a row attends to, its own included; 0: all before it
  std::uint32_t rope = 0;    // index into ModelConfig::ropes
  bool operator==(const LayerShape&) const = default;
};

struct ModelConfig {
  std::string architecture;  // a name of families()
  std::string name;          // general.name, printable(): it goes into logs and terminals; "" if absent
  std::uint32_t n_layers = 0;
  std::uint32_t dim = 0;                                    // embedding length
  std::uint32_t ffn_dim = 0;                                // feed-forward length; 0 with experts
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;  // n_heads % n_kv_heads == 0
  std::uint32_t vocab_size = 0;
  std::uint32_t context_length = 0;  // what it was trained for
  float norm_eps = 1e-5F;
  std::vector<RopeConfig> ropes = {RopeConfig()};  // at least one, all of the same dim; a layer has one
  kernels::RopeStyle rope_style = kernels::RopeStyle::interleaved;
  kernels::Activation activation = kernels::Activation::silu;  // of the feed-forwards' gates
  float embedding_scale = 1.0F;                                // on the table's rows
  float residual_scale = 1.0F;                                 // on what a block adds to the stream
  float logit_scale = 1.0F;                                    // logits are divided by it
  float query_scale = 0.0F;                                    // on q.k
  // A query at position p is scaled by 1 + temperature_scale * ln(1 + floor(p / temperature_length)), too.
  float temperature_scale = 0.0F;  // 0: it is not
  std::uint32_t temperature_length = 1;
  // q.k, and the logits: x becomes cap * tanh(x / cap). 0: it stays.
  float attention_cap = 0.0F, logit_cap = 0.0F;
  bool tied_embeddings = false;    // no output.weight: the embedding table is used
  bool qkv_bias = false;           // q, k and v have a bias each
  bool o_bias = false;             // the output of attention has a bias
  bool qk_norm = false;            // every head of q and of k is normed before it is rotated
  bool post_norms = false;         // what attention and feed-forward give is normed before it is added
  bool fused_matrices = false;     // the file has q, k and v in one tensor, and gate and up in another
  std::vector<LayerShape> layers;  // empty: each layer is a LayerShape()
  // Mixture of experts: every layer has n_experts feed-forwards, each token uses n_experts_used of them.
  std::uint32_t n_experts = 0;  // 0: dense, and the other two are 0
  std::uint32_t n_experts_used = 0, expert_ffn_dim = 0;

  bool operator==(const ModelConfig&) const = default;
  LayerShape layer(std::uint32_t i) const noexcept { return layers.empty() ? LayerShape{} : layers[i]; }
  const RopeConfig& rope_of(std::uint32_t layer_index) const noexcept {
    return ropes[layer(layer_index).rope];
  }
  std::uint32_t rope_dim() const noexcept { return ropes[0].dim; }
  // Engines carry the stream divided by residual_scale, so that blocks add to it as they are: then rows of
  // the table are scaled by stream_scale(), and norms of the stream, which a factor does not change, have
  // stream_eps().
  float stream_scale() const noexcept { return embedding_scale / residual_scale; }
  float stream_eps() const noexcept { return norm_eps / (residual_scale * residual_scale); }
  bool windowed() const noexcept;  // some layer has a window
  // Sequences will be of at most so many positions. LongRoPE has other factors for long ones, and all
  // positions of a sequence must be rotated by the same.
  void serve(std::uint32_t context);
};

// model_invalid (value, limit and key). model_unsupported: an architecture that this build does not know, or
// a mixture of experts of one that has none, by key and value.
Result<ModelConfig> read_model_config(const Gguf& file);

}  // namespace flyball::model
