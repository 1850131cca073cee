// A model's RoPE settings as the rotation tables' arguments: devices share the tables, so that they rotate
// alike.
#pragma once

#include <vector>

#include "backends/device/rope_table.hpp"
#include "backends/model/model_config.hpp"

namespace flyball::device {

// A step's rotations are one table for each of the model's ropes, [rows, rope dim / 2, 2] each, one after the
// other; with an attention temperature another one of each follows, which is for queries.
inline std::uint32_t rope_tables(const model::ModelConfig& config) {
  const auto ropes = static_cast<std::uint32_t>(config.ropes.size());
  return config.temperature_scale != 0.0F ? 2 * ropes : ropes;
}
inline std::uint32_t key_table_of(const model::ModelConfig& config, std::uint32_t layer) {
  return config.layer(layer).rope;
}
inline std::uint32_t query_table_of(const model::ModelConfig& config, std::uint32_t layer) {
  return rope_tables(config) - static_cast<std::uint32_t>(config.ropes.size()) + config.layer(layer).rope;
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
  args.rotates = rope.rotates;
  return args;
}

// By key_table_of and query_table_of.
inline std::vector<RopeTable> make_rope_tables(const model::ModelConfig& config) {
  std::vector<RopeTable> tables;
  for (const model::RopeConfig& rope : config.ropes) tables.emplace_back(rope_table_args(rope));
  if (config.temperature_scale == 0.0F) return tables;
  for (const model::RopeConfig& rope : config.ropes) {
    RopeTableArgs args = rope_table_args(rope);
    args.temperature_scale = config.temperature_scale;
    args.temperature_length = config.temperature_length;
    tables.emplace_back(args);
  }
  return tables;
}

}  // namespace flyball::device
