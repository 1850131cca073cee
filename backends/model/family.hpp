// The families of models that this build reads: what they differ in, by name, a row each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/formats/activation.hpp"
#include "kernels/formats/rope_style.hpp"

namespace flyball::model {

// Which files of a family have something.
enum class InFiles : std::uint8_t { none, some, all };

// Sliding windows: keys attention.sliding_window and attention.sliding_window_pattern.
struct FamilyWindows {
  std::uint32_t window = 0;        // of a file without the key; 0: none
  std::uint32_t global_every = 0;  // the last layer of each run of so many has no window; 0: all have one
  float rope_base = 0.0F;          // of layers with a window, without any scaling; 0: as the other layers
};

struct Family {
  std::string_view name;  // general.architecture; metadata keys begin with it
  kernels::RopeStyle rope_style = kernels::RopeStyle::half;
  kernels::Activation activation = kernels::Activation::silu;
  // Weights.
  InFiles experts = InFiles::none;
  InFiles qkv_bias = InFiles::none, o_bias = InFiles::none;
  bool qk_norm = false, post_norms = false, fused_matrices = false;
  // Embeddings are scaled by the square root of their length.
  bool root_embedding_scale = false;
  // Keys embedding_scale, attention.scale, residual_scale and logit_scale count.
  bool file_scales = false;
  // Queries of a model with so many layers are scaled by an even share of the embedding length, not by the
  // size of a head: files do not say it.
  std::uint32_t even_share_layers = 0;
  // Soft caps of a file without the key, 0: none. Absent: the key does not count.
  std::optional<float> attention_cap = {}, logit_cap = {};
  std::optional<FamilyWindows> windows = {};
  // The last layer of each run of so many does not rotate (NoPE); 0: all layers rotate.
  std::uint32_t still_every = 0;
  // rope.scaling.finetuned false: no layer rotates.
  bool rope_switch = false;
  // The key attention.temperature_scale counts: queries grow with their position.
  bool query_temperature = false;
  // The key rope.scaling.yarn_log_multiplier counts.
  bool yarn_log_multiplier = false;
};

std::span<const Family> families() noexcept;
const Family* find_family(std::string_view name) noexcept;  // nullptr: not known
std::string family_names();                                 // "llama, qwen2, ..."

}  // namespace flyball::model
