#include "backends/graph/weights.hpp"

#include <cstdlib>

namespace flyball::graph {

const model::Weight& weight_of(const model::ModelWeights& weights, WeightRef ref) noexcept {
  const auto layer = [&]() -> const model::LayerWeights& { return weights.layers[ref.layer]; };
  switch (ref.role) {
    case WeightRole::token_embedding:
      return weights.token_embedding;
    case WeightRole::output_norm:
      return weights.output_norm;
    case WeightRole::output:
      return weights.output;
    case WeightRole::attn_norm:
      return layer().attn_norm;
    case WeightRole::q:
      return layer().q;
    case WeightRole::k:
      return layer().k;
    case WeightRole::v:
      return layer().v;
    case WeightRole::o:
      return layer().o;
    case WeightRole::ffn_norm:
      return layer().ffn_norm;
    case WeightRole::gate:
      return layer().gate;
    case WeightRole::up:
      return layer().up;
    case WeightRole::down:
      return layer().down;
    case WeightRole::q_bias:
      return layer().q_bias;
    case WeightRole::k_bias:
      return layer().k_bias;
    case WeightRole::v_bias:
      return layer().v_bias;
    case WeightRole::q_norm:
      return layer().q_norm;
    case WeightRole::k_norm:
      return layer().k_norm;
    case WeightRole::attn_post_norm:
      return layer().attn_post_norm;
    case WeightRole::ffn_post_norm:
      return layer().ffn_post_norm;
    case WeightRole::router:
      return layer().router;
    case WeightRole::expert_gate:
      return layer().expert_gate;
    case WeightRole::expert_up:
      return layer().expert_up;
    case WeightRole::expert_down:
      return layer().expert_down;
  }
  std::abort();
}

}  // namespace flyball::graph
