// A model's RoPE settings as the rotation tables' arguments: devices share the tables, so that they rotate
// alike.
#pragma once

#include <vector>

#include "backends/device/rope_table.hpp"
#include "backends/model/model_config.hpp"

namespace flyball::device {

// A step's rotations are one table a kind of layer, [rows, rope.dim / 2, 2] each, one after the other.
inline std::uint32_t rope_tables(const model::ModelConfig& config) {
  return config.local_rope ? 2 : 1;
}
inline const model::RopeConfig& rope_of_table(const model::ModelConfig& config, std::uint32_t table) {
  return table == 0 ? config.rope : *config.local_rope;
}
inline std::uint32_t rope_table_of(const model::ModelConfig& config, std::uint32_t layer) {
  return config.local_rope && config.layer(layer).local ? 1 : 0;
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

// Of a model's kinds of layers, by rope_table_of.
inline std::vector<RopeTable> make_rope_tables(const model::ModelConfig& config) {
  std::vector<RopeTable> tables;
  for (std::uint32_t i = 0; i < rope_tables(config); ++i)
    tables.emplace_back(rope_table_args(rope_of_table(config, i)));
  return tables;
}

}  // namespace flyball::device
