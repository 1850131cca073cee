// A model's RoPE settings as the rotation tables' arguments: devices share the tables, so that they rotate
// alike.
#pragma once

#include <vector>

#include "backends/device/rope_table.hpp"
#include "backends/model/model_config.hpp"

namespace flyball::device {

// A step's rotations are one table for each of the model's ropes, [rows, rope dim / 2, 2] each, one after the
// other.
inline std::uint32_t rope_tables(const model::ModelConfig& config) {
  return static_cast<std::uint32_t>(config.ropes.size());
}
inline std::uint32_t rope_table_of(const model::ModelConfig& config, std::uint32_t layer) {
  return config.layer(layer).rope;
}

// Views rope.frequency_factors.
inline RopeTableArgs rope_table_args(const model::RopeConfig& rope) {
  RopeTableArgs args;
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

// By rope_table_of.
inline std::vector<RopeTable> make_rope_tables(const model::ModelConfig& config) {
  std::vector<RopeTable> tables;
  for (const model::RopeConfig& rope : config.ropes) tables.emplace_back(rope_table_args(rope));
  return tables;
}

}  // namespace flyball::device
