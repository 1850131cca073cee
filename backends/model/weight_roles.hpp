// The weights that a model can have, a row each: the tensor's name in a GGUF file and in an MLX directory,
// what kind of weight it is, its shape, and which models have it. Names: gguf-py's tensor mapping; mlx-lm's
// models.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flyball::model {

struct ModelConfig;

// Synthetic files hold their tensors in this order.
enum class WeightRole : std::uint8_t {
  token_embedding,
  attn_norm,
  q,
  k,
  v,
  q_bias,  // added after q, k, v
  k_bias,
  v_bias,
  q_norm,  // of every head alike
  k_norm,
  o,
  o_bias,
  attn_post_norm,  // of what attention gives, as ffn_post_norm of what the feed-forward gives
  ffn_norm,
  router,
  expert_gate,
  expert_up,
  expert_down,
  gate,
  up,
  down,
  ffn_post_norm,
  output_norm,
  output,
  count,
};
inline constexpr std::size_t kWeightRoleCount = static_cast<std::size_t>(WeightRole::count);

struct WeightRef {
  WeightRole role = WeightRole::output;
  std::uint32_t layer = 0;  // 0 where the weight is of no layer
};

enum class WeightKind : std::uint8_t {
  vector,  // a norm or a bias: F32, one row
  matrix,
  experts,  // a matrix for each expert
};
// A dimension of a weight: values of ModelConfig.
enum class WeightSize : std::uint8_t { one, dim, vocab, q_rows, kv_rows, head_dim, ffn, experts, expert_ffn };
// The models that have a weight.
enum class WeightOf : std::uint8_t {
  all,
  untied,         // !tied_embeddings
  biased_qkv,     // qkv_bias
  biased_output,  // o_bias
  normed_heads,   // qk_norm
  normed_blocks,  // post_norms
  dense,          // n_experts == 0
  mixtures,
};

struct RoleFacts {
  WeightRole role = WeightRole::count;
  std::string_view name;    // in GGUF, behind "blk.N." where each layer has one
  std::string_view module;  // in MLX, likewise behind "model.layers.N."; "": MLX's families have none
  WeightKind kind = WeightKind::matrix;
  WeightSize rows = WeightSize::one, cols = WeightSize::dim;
  WeightOf of = WeightOf::all;
  bool of_layer = true;
};

inline constexpr std::array<RoleFacts, kWeightRoleCount> kWeightRoles = [] {
  using enum WeightRole;
  using enum WeightKind;
  using S = WeightSize;
  using M = WeightOf;
  return std::array<RoleFacts, kWeightRoleCount>{{
      {token_embedding, "token_embd.weight", "model.embed_tokens", matrix, S::vocab, S::dim, M::all, false},
      {attn_norm, "attn_norm.weight", "input_layernorm", vector, S::one, S::dim},
      {q, "attn_q.weight", "self_attn.q_proj", matrix, S::q_rows, S::dim},
      {k, "attn_k.weight", "self_attn.k_proj", matrix, S::kv_rows, S::dim},
      {v, "attn_v.weight", "self_attn.v_proj", matrix, S::kv_rows, S::dim},
      {q_bias, "attn_q.bias", "self_attn.q_proj", vector, S::one, S::q_rows, M::biased_qkv},
      {k_bias, "attn_k.bias", "self_attn.k_proj", vector, S::one, S::kv_rows, M::biased_qkv},
      {v_bias, "attn_v.bias", "self_attn.v_proj", vector, S::one, S::kv_rows, M::biased_qkv},
      {q_norm, "attn_q_norm.weight", "self_attn.q_norm", vector, S::one, S::head_dim, M::normed_heads},
      {k_norm, "attn_k_norm.weight", "self_attn.k_norm", vector, S::one, S::head_dim, M::normed_heads},
      {o, "attn_output.weight", "self_attn.o_proj", matrix, S::dim, S::q_rows},
      {o_bias, "attn_output.bias", "self_attn.o_proj", vector, S::one, S::dim, M::biased_output},
      {attn_post_norm, "post_attention_norm.weight", "", vector, S::one, S::dim, M::normed_blocks},
      {ffn_norm, "ffn_norm.weight", "post_attention_layernorm", vector, S::one, S::dim},
      {router, "ffn_gate_inp.weight", "mlp.gate", matrix, S::experts, S::dim, M::mixtures},
      {expert_gate, "ffn_gate_exps.weight", "mlp.switch_mlp.gate_proj", experts, S::expert_ffn, S::dim,
       M::mixtures},
      {expert_up, "ffn_up_exps.weight", "mlp.switch_mlp.up_proj", experts, S::expert_ffn, S::dim,
       M::mixtures},
      {expert_down, "ffn_down_exps.weight", "mlp.switch_mlp.down_proj", experts, S::dim, S::expert_ffn,
       M::mixtures},
      {gate, "ffn_gate.weight", "mlp.gate_proj", matrix, S::ffn, S::dim, M::dense},
      {up, "ffn_up.weight", "mlp.up_proj", matrix, S::ffn, S::dim, M::dense},
      {down, "ffn_down.weight", "mlp.down_proj", matrix, S::dim, S::ffn, M::dense},
      {ffn_post_norm, "post_ffw_norm.weight", "", vector, S::one, S::dim, M::normed_blocks},
      {output_norm, "output_norm.weight", "model.norm", vector, S::one, S::dim, M::all, false},
      {output, "output.weight", "lm_head", matrix, S::vocab, S::dim, M::untied, false},
  }};
}();
static_assert(
    [] {
      for (std::size_t i = 0; i < kWeightRoleCount; ++i)
        if (kWeightRoles[i].role != static_cast<WeightRole>(i)) return false;
      return true;
    }(),
    "each role has a row, in the order of the enumeration");

// Tensors that hold the rows of several roles, in this order, where ModelConfig::fused_matrices says so.
struct FusedRoles {
  std::string_view name;
  WeightRole parts[3];
  std::size_t n;
};
inline constexpr FusedRoles kFusedRoles[] = {
    {"attn_qkv.weight", {WeightRole::q, WeightRole::k, WeightRole::v}, 3},
    {"ffn_up.weight", {WeightRole::gate, WeightRole::up}, 2},
};

constexpr const RoleFacts& facts_of(WeightRole role) noexcept {
  return kWeightRoles[static_cast<std::size_t>(role)];
}
constexpr bool of_a_layer(WeightRole role) noexcept {
  return facts_of(role).of_layer;
}
constexpr WeightKind kind_of(WeightRole role) noexcept {
  return facts_of(role).kind;
}
// A matrix of each layer that every token meets: no embedding table, no output, no experts.
constexpr bool is_layer_matrix(WeightRole role) noexcept {
  return of_a_layer(role) && kind_of(role) == WeightKind::matrix;
}

bool has_weight(const ModelConfig& config, WeightRole role) noexcept;
std::uint32_t size_of(const ModelConfig& config, WeightSize size) noexcept;
// The group that a role's rows lie in; nullptr where the role has a tensor of its own.
const FusedRoles* fused_with(const ModelConfig& config, WeightRole role) noexcept;

inline std::string_view tensor_name(WeightRole role) noexcept {
  return facts_of(role).name;
}
// "blk.3.attn_q.weight"
inline std::string layer_tensor_name(std::uint32_t layer, std::string_view name) {
  return "blk." + std::to_string(layer) + "." + std::string(name);
}

// Tensors of a GGUF file that are no weights: they say how positions are rotated.
inline constexpr std::string_view kRopeFrequencies = "rope_freqs.weight";
inline constexpr std::string_view kRopeFactorsShort = "rope_factors_short.weight";
inline constexpr std::string_view kRopeFactorsLong = "rope_factors_long.weight";

}  // namespace flyball::model
