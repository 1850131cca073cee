// Metadata of a file of a known family to a validated shape.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "backends/model/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "backends/model/family.hpp"
#include "backends/model/invalid.hpp"
#include "backends/model/key_reader.hpp"
#include "backends/model/weight_roles.hpp"

namespace flyball::model {
namespace {

// Soft caps: within these x / cap is a number.
constexpr float kLeastCap = 1e-3F, kMostCap = 1e6F;
// Scales: squares of these and their inverses are normal numbers.
constexpr float kLeastScale = 1e-4F, kMostScale = 1e4F;

// Counts of experts and the length of their feed-forwards, or a dense model's own length.
void read_feed_forward(KeyReader& keys, const Family& family, ModelConfig& config) {
  config.n_experts = family.experts == InFiles::all ? keys.count("expert_count", kMaxExperts)
                                                    : keys.count_or_none("expert_count", kMaxExperts);
  if (config.n_experts == 0) {
    config.ffn_dim = keys.uniform_count("feed_forward_length", kMaxFfnDim, 0);
    return;
  }
  const auto most_used = std::min<std::uint64_t>(config.n_experts, kMaxExpertsUsed);
  config.n_experts_used = keys.count("expert_used_count", most_used);
  // Mixtral's files give the experts' length as feed_forward_length.
  config.expert_ffn_dim = keys.count_or_none("expert_feed_forward_length", kMaxFfnDim);
  if (config.expert_ffn_dim == 0)
    config.expert_ffn_dim = keys.uniform_count("feed_forward_length", kMaxFfnDim, 0);
}

void resize_layers(ModelConfig& config) {
  if (config.layers.empty()) config.layers.resize(config.n_layers);
}

void read_windows(KeyReader& keys, const Family& family, ModelConfig& config) {
  if (!family.windows) return;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  std::uint32_t window = keys.has("attention.sliding_window")
                             ? keys.count_or_none("attention.sliding_window", kMaxContext)
                             : family.windows->window;
  if (window == 0) return;
  if (window >= config.context_length) window = 0;  // it hides nothing
  const auto flags = keys.flags(kPattern, config.n_layers);
  const std::uint32_t global_every =
      flags || !keys.has(kPattern) ? family.windows->global_every : keys.count_or_none(kPattern, kMaxLayers);
  RopeConfig local = config.ropes[0];
  if (family.windows->rope_base != 0.0F) {
    local = {};
    local.dim = config.ropes[0].dim;
    local.base = family.windows->rope_base;
    local.original_context = config.ropes[0].original_context;
    local.attn_factor = config.ropes[0].attn_factor;
  }
  local.base = keys.number("rope.freq_base_swa", 2.0F, 1e12F,
                           keys.number("rope.local.freq_base", 2.0F, 1e12F, local.base));
  std::uint32_t local_rope = 0;
  if (local != config.ropes[0]) {
    local_rope = static_cast<std::uint32_t>(config.ropes.size());
    config.ropes.push_back(std::move(local));
  }
  resize_layers(config);
  for (std::uint32_t i = 0; i < config.n_layers; ++i) {
    const bool has_window = flags ? (*flags)[i] : global_every == 0 || i % global_every + 1 < global_every;
    if (has_window) config.layers[i] = {.window = window, .rope = local_rope};
  }
}

// After the first rope is read.
Result<void> read_rotations(KeyReader& keys, const Family& family, ModelConfig& config) {
  RopeConfig& rope = config.ropes[0];
  if (family.yarn_log_multiplier && rope.scaling == RopeScaling::yarn && rope.factor > 1.0F)
    rope.attn_factor /= 1.0F + 0.1F * keys.number("rope.scaling.yarn_log_multiplier", 0.0F, 1e3F, 0.0F) *
                                   std::log(rope.factor);
  if (family.rope_switch) rope.rotates = keys.flag("rope.scaling.finetuned", true);
  if (family.query_temperature) {
    config.temperature_scale = keys.number("attention.temperature_scale", 0.0F, 1e3F, 0.0F);
    config.temperature_length = rope.original_context;
    if (config.temperature_scale != 0.0F && rope.dim != config.head_dim)
      return unsupported("an attention temperature where " + std::to_string(rope.dim) + " of " +
                             std::to_string(config.head_dim) +
                             " values of a head are rotated; this build knows it where all are",
                         keys.key("attention.temperature_scale"));
  }
  if (family.still_every == 0) return {};
  RopeConfig still;
  still.dim = rope.dim;
  still.rotates = false;
  config.ropes.push_back(std::move(still));
  resize_layers(config);
  for (std::uint32_t i = family.still_every - 1; i < config.n_layers; i += family.still_every)
    config.layers[i].rope = 1;
  return {};
}

float read_cap(KeyReader& keys, std::string_view name, std::optional<float> of_family) {
  return of_family ? keys.number_or_off(name, kLeastCap, kMostCap, *of_family) : 0.0F;
}

void read_scales(KeyReader& keys, const Family& family, ModelConfig& config) {
  config.attention_cap = read_cap(keys, "attn_logit_softcapping", family.attention_cap);
  config.logit_cap = read_cap(keys, "final_logit_softcapping", family.logit_cap);
  if (family.root_embedding_scale) config.embedding_scale = std::sqrt(static_cast<float>(config.dim));
  const bool even_share = config.n_layers == family.even_share_layers;
  const auto query_size = even_share ? static_cast<float>(config.dim) / static_cast<float>(config.n_heads)
                                     : static_cast<float>(config.head_dim);
  config.query_scale = 1.0F / std::sqrt(query_size);
  if (!family.file_scales) return;
  const auto scale = [&](std::string_view name, float fallback) {
    const float value = keys.number_or_off(name, kLeastScale, kMostScale, fallback);
    return value == 0.0F ? fallback : value;
  };
  config.embedding_scale = scale("embedding_scale", config.embedding_scale);
  config.residual_scale = scale("residual_scale", 1.0F);
  config.query_scale = scale("attention.scale", config.query_scale);
  config.logit_scale = scale("logit_scale", 1.0F);
}

// Optional weights are in all layers or in none: the first layer says which.
bool has_bias(const Gguf& file, InFiles in_files, WeightRole bias) {
  return in_files == InFiles::all ||
         (in_files == InFiles::some && file.tensor(layer_tensor_name(0, tensor_name(bias))) != nullptr);
}

// The embedding table's rows; where the file also has a vocabulary, it must be of that size.
Result<std::uint32_t> read_vocab_size(const Gguf& file) {
  const std::string name(tensor_name(WeightRole::token_embedding));
  const auto* table = file.tensor(name);
  if (table == nullptr) return invalid("the tensor " + name + " is missing", name);
  const auto rows = table->rows();
  if (rows > kMaxVocab) {
    return invalid(
        "the vocabulary has " + std::to_string(rows) + " tokens, the limit is " + std::to_string(kMaxVocab),
        name);
  }
  const auto tokens = file.get_array("tokenizer.ggml.tokens");
  if (!tokens) return pass(tokens);
  if (*tokens != nullptr && (*tokens)->count != rows) {
    return invalid("the vocabulary has " + std::to_string((*tokens)->count) +
                       " tokens and the embedding table " + std::to_string(rows) + " rows",
                   name);
  }
  return static_cast<std::uint32_t>(rows);
}

}  // namespace

bool ModelConfig::windowed() const noexcept {
  return std::ranges::any_of(layers, [](const LayerShape& l) { return l.window != 0; });
}

void ModelConfig::serve(std::uint32_t context) {
  for (RopeConfig& each : ropes)
    if (!each.long_factors.empty() && context > each.original_context)
      each.frequency_factors = each.long_factors;
}

Result<ModelConfig> read_model_config(const Gguf& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) return pass(architecture);
  if (!*architecture)
    return invalid("the metadata key general.architecture is missing", "general.architecture");
  const Family* family = find_family(**architecture);
  if (family == nullptr)
    return unsupported(
        "the architecture " + printable(**architecture) + " is not one this build knows: " + family_names(),
        "general.architecture");
  const auto name = file.get_string("general.name");
  if (!name) return pass(name);

  ModelConfig config;
  config.architecture = **architecture;
  config.name = printable(name->value_or(""));
  KeyReader keys(file, config.architecture + ".");
  config.n_layers = keys.count("block_count", kMaxLayers);
  config.dim = keys.count("embedding_length", kMaxDim);
  read_feed_forward(keys, *family, config);
  config.n_heads = keys.uniform_count("attention.head_count", kMaxHeads, 0);
  config.n_kv_heads = keys.uniform_count("attention.head_count_kv", kMaxHeads, config.n_heads);
  config.context_length = keys.count("context_length", kMaxContext);
  config.norm_eps = keys.required_number("attention.layer_norm_rms_epsilon", 0.0F, 1.0F);
  if (keys.error()) return std::unexpected(*keys.error());

  if (config.n_experts > 0 && family->experts == InFiles::none) {
    return unsupported("a mixture of " + std::to_string(config.n_experts) + " experts, which no " +
                           config.architecture + " model that this build knows has",
                       keys.key("expert_count"));
  }
  if (config.n_heads % config.n_kv_heads != 0) {
    return invalid("the " + std::to_string(config.n_heads) + " heads cannot share " +
                       std::to_string(config.n_kv_heads) + " KV heads evenly",
                   keys.key("attention.head_count_kv"));
  }
  if (!keys.has("attention.key_length") && config.dim % config.n_heads != 0) {
    return invalid("the embedding length " + std::to_string(config.dim) + " is not a multiple of the " +
                       std::to_string(config.n_heads) + " heads",
                   keys.key("attention.head_count"));
  }
  const auto even_share = config.dim / config.n_heads;
  config.head_dim = keys.count("attention.key_length", kMaxHeadDim, even_share == 0 ? 1 : even_share);
  const auto value_dim = keys.count("attention.value_length", kMaxHeadDim, config.head_dim);
  if (keys.error()) return std::unexpected(*keys.error());
  if (value_dim != config.head_dim || config.head_dim % 2 != 0) {
    return invalid("keys of " + std::to_string(config.head_dim) + " and values of " +
                       std::to_string(value_dim) + " per head; they must be even and equal",
                   keys.key("attention.key_length"));
  }
  config.rope_style = family->rope_style;
  config.activation = family->activation;
  config.qkv_bias = has_bias(file, family->qkv_bias, WeightRole::q_bias);
  config.o_bias = has_bias(file, family->o_bias, WeightRole::o_bias);
  config.qk_norm = family->qk_norm;
  config.post_norms = family->post_norms;
  config.fused_matrices = family->fused_matrices;
  read_scales(keys, *family, config);
  auto rope = read_rope(file, keys, config.head_dim, config.context_length);
  if (!rope) return pass(rope);
  config.ropes = {std::move(*rope)};
  if (auto ok = read_rotations(keys, *family, config); !ok) return pass(ok);
  read_windows(keys, *family, config);
  if (keys.error()) return std::unexpected(*keys.error());
  const auto vocab = read_vocab_size(file);
  if (!vocab) return pass(vocab);
  config.vocab_size = *vocab;
  config.tied_embeddings = file.tensor(tensor_name(WeightRole::output)) == nullptr;
  return config;
}

}  // namespace flyball::model
