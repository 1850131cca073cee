// A model's RoPE settings as the rotation table's arguments: devices share the table, so that they rotate
// alike.
#pragma once

#include "backends/model/model_config.hpp"
#include "kernels/cpu/rope_table.hpp"

namespace flyball::graph {

// Views config.rope.frequency_factors.
inline kernels::cpu::RopeTableArgs rope_table_args(const model::ModelConfig& config) {
  const model::RopeConfig& rope = config.rope;
  kernels::cpu::RopeTableArgs args;
  args.dim = rope.dim;
  args.base = rope.base;
  args.factor = rope.factor;
  args.attn_factor = rope.attn_factor;
  args.ext_factor = rope.scaling == model::RopeScaling::yarn ? 1.0F : 0.0F;
  args.beta_fast = rope.beta_fast;
  args.beta_slow = rope.beta_slow;
  args.original_context = rope.original_context;
  args.frequency_factors = rope.frequency_factors.empty() ? nullptr : rope.frequency_factors.data();
  return args;
}

}  // namespace flyball::graph
