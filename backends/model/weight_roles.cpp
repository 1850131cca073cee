#include "backends/model/weight_roles.hpp"

#include <algorithm>

#include "backends/model/model_config.hpp"

namespace flyball::model {

bool has_weight(const ModelConfig& config, WeightRole role) noexcept {
  switch (facts_of(role).of) {
    case WeightOf::all:
      return true;
    case WeightOf::untied:
      return !config.tied_embeddings;
    case WeightOf::biased_qkv:
      return config.qkv_bias;
    case WeightOf::biased_output:
      return config.o_bias;
    case WeightOf::normed_heads:
      return config.qk_norm;
    case WeightOf::normed_blocks:
      return config.post_norms;
    case WeightOf::dense:
      return config.n_experts == 0;
    case WeightOf::mixtures:
      return config.n_experts > 0;
  }
  return false;
}

std::uint32_t size_of(const ModelConfig& config, WeightSize size) noexcept {
  switch (size) {
    case WeightSize::one:
      return 1;
    case WeightSize::dim:
      return config.dim;
    case WeightSize::vocab:
      return config.vocab_size;
    case WeightSize::q_rows:
      return config.n_heads * config.head_dim;
    case WeightSize::kv_rows:
      return config.n_kv_heads * config.head_dim;
    case WeightSize::head_dim:
      return config.head_dim;
    case WeightSize::ffn:
      return config.ffn_dim;
    case WeightSize::experts:
      return config.n_experts;
    case WeightSize::expert_ffn:
      return config.expert_ffn_dim;
  }
  return 0;
}

const FusedRoles* fused_with(const ModelConfig& config, WeightRole role) noexcept {
  if (!config.fused_matrices) return nullptr;
  for (const FusedRoles& fused : kFusedRoles)
    if (std::ranges::find(fused.parts, fused.parts + fused.n, role) != fused.parts + fused.n) return &fused;
  return nullptr;
}

}  // namespace flyball::model
