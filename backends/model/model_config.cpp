// Metadata of a file of a known family to a validated shape.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "backends/model/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "backends/model/invalid.hpp"
#include "backends/model/key_reader.hpp"
#include "backends/model/weight_names.hpp"

namespace flyball::model {
namespace {

// What the families differ in; the metadata keys begin with the name.
struct Family {
  enum class Experts : std::uint8_t { never, some_files, always };
  std::string_view name;
  kernels::RopeStyle rope_style = kernels::RopeStyle::half;
  bool qkv_bias = false, qk_norm = false, fused_matrices = false;
  Experts experts = Experts::never;
  bool gemma = false;  // scaled embeddings, GELU, norms behind attention and feed-forward, caps
  // Sliding windows.
  bool windows = false;      // attention.sliding_window counts
  std::uint32_t window = 0;  // where the file has no such key; 0: none
  // One layer in so many has none, the last of each run; 0: every layer has it.
  std::uint32_t global_every = 0;
  // Of layers with a window, without any scaling; 0: they rotate as the others.
  float local_rope_base = 0.0F;
  // Of gemma.
  float attention_cap = 0.0F, logit_cap = 0.0F;  // where the file has no such keys; 0: none
  // Files do not say how queries are scaled: by their size, but in the model of so many layers by what an
  // even share of the embedding length would be.
  std::uint32_t even_share_layers = 0;
};
constexpr Family kFamilies[] = {
    {.name = "llama",
     .rope_style = kernels::RopeStyle::interleaved,
     .experts = Family::Experts::some_files},  // and Mixtral
    {.name = "qwen2", .qkv_bias = true},
    {.name = "qwen3", .qk_norm = true},
    {.name = "qwen3moe", .qk_norm = true, .experts = Family::Experts::always},
    // Where its files name a window, every layer has it, as in transformers' modeling_phi3; llama.cpp leaves
    // it out, so texts longer than the window differ from its.
    {.name = "phi3", .fused_matrices = true, .windows = true},
    {.name = "gemma2",
     .gemma = true,
     .windows = true,
     .window = 4096,
     .global_every = 2,
     .attention_cap = 50.0F,
     .logit_cap = 30.0F,
     .even_share_layers = 46},
    {.name = "gemma3",
     .qk_norm = true,
     .gemma = true,
     .windows = true,
     .global_every = 6,
     .local_rope_base = 10'000.0F,
     .even_share_layers = 62},
};

// Soft caps: within these x / cap is a number.
constexpr float kLeastCap = 1e-3F, kMostCap = 1e6F;

// Counts of experts and the length of their feed-forwards, or a dense model's own length.
void read_feed_forward(KeyReader& keys, const Family& family, ModelConfig& config) {
  config.n_experts = family.experts == Family::Experts::always
                         ? keys.count("expert_count", kMaxExperts)
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

void read_windows(KeyReader& keys, const Family& family, ModelConfig& config) {
  if (!family.windows) return;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  std::uint32_t window = keys.has("attention.sliding_window")
                             ? keys.count_or_none("attention.sliding_window", kMaxContext)
                             : family.window;
  if (window == 0) return;
  if (window >= config.context_length) window = 0;  // it hides nothing
  const auto flags = keys.flags(kPattern, config.n_layers);
  const std::uint32_t global_every =
      flags || !keys.has(kPattern) ? family.global_every : keys.count_or_none(kPattern, kMaxLayers);
  config.layers.resize(config.n_layers);
  for (std::uint32_t i = 0; i < config.n_layers; ++i) {
    const bool local = flags ? (*flags)[i] : global_every == 0 || i % global_every + 1 < global_every;
    if (local) config.layers[i] = {.window = window, .local = true};
  }
}

void read_local_rope(KeyReader& keys, const Family& family, ModelConfig& config) {
  if (config.layers.empty()) return;
  RopeConfig local = config.rope;
  if (family.local_rope_base != 0.0F) {
    local = {};
    local.dim = config.rope.dim;
    local.base = family.local_rope_base;
    local.original_context = config.rope.original_context;
    local.attn_factor = config.rope.attn_factor;
  }
  local.base = keys.number("rope.freq_base_swa", 2.0F, 1e12F, local.base);
  if (local != config.rope) config.local_rope = std::move(local);
}

void read_gemma(KeyReader& keys, const Family& family, ModelConfig& config) {
  if (!family.gemma) return;
  config.embedding_scale = std::sqrt(static_cast<float>(config.dim));
  config.activation = kernels::Activation::gelu;
  config.post_norms = true;
  config.attention_cap = keys.number_or_off("attn_logit_softcapping", kLeastCap, kMostCap, family.attention_cap);
  config.logit_cap = keys.number_or_off("final_logit_softcapping", kLeastCap, kMostCap, family.logit_cap);
  if (config.n_layers == family.even_share_layers)
    config.query_scale =
        1.0F / std::sqrt(static_cast<float>(config.dim) / static_cast<float>(config.n_heads));
}

// The embedding table's rows; where the file also has a vocabulary, it must be of that size.
Result<std::uint32_t> read_vocab_size(const Gguf& file) {
  const std::string name(weight_names::kTokenEmbedding);
  const auto* table = file.tensor(name);
  if (table == nullptr) return invalid("the tensor " + name + " is missing", name);
  const auto rows = table->rows();
  if (rows > kMaxVocab) {
    return invalid(
        "the vocabulary has " + std::to_string(rows) + " tokens, the limit is " + std::to_string(kMaxVocab),
        name);
  }
  const auto tokens = file.get_array("tokenizer.ggml.tokens");
  if (!tokens) return std::unexpected(tokens.error());
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
  for (RopeConfig* each : {&rope, local_rope ? &*local_rope : nullptr})
    if (each != nullptr && !each->long_factors.empty() && context > each->original_context)
      each->frequency_factors = each->long_factors;
}

Result<ModelConfig> read_model_config(const Gguf& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) return std::unexpected(architecture.error());
  if (!*architecture)
    return invalid("the metadata key general.architecture is missing", "general.architecture");
  const auto* family = std::ranges::find(kFamilies, **architecture, &Family::name);
  if (family == std::end(kFamilies)) {
    std::string known;
    for (const Family& f : kFamilies) known += (known.empty() ? "" : ", ") + std::string(f.name);
    return unsupported(
        "the architecture " + printable(**architecture) + " is not one this build knows: " + known,
        "general.architecture");
  }
  const auto name = file.get_string("general.name");
  if (!name) return std::unexpected(name.error());

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

  if (config.n_experts > 0 && family->experts == Family::Experts::never) {
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
  config.qkv_bias = family->qkv_bias;
  config.qk_norm = family->qk_norm;
  config.fused_matrices = family->fused_matrices;
  config.query_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  read_gemma(keys, *family, config);
  read_windows(keys, *family, config);
  if (keys.error()) return std::unexpected(*keys.error());
  auto rope = read_rope(file, keys, config.head_dim, config.context_length);
  if (!rope) return std::unexpected(std::move(rope.error()));
  config.rope = std::move(*rope);
  read_local_rope(keys, *family, config);
  if (keys.error()) return std::unexpected(*keys.error());
  const auto vocab = read_vocab_size(file);
  if (!vocab) return std::unexpected(vocab.error());
  config.vocab_size = *vocab;
  config.tied_embeddings = file.tensor(weight_names::kOutput) == nullptr;
  return config;
}

}  // namespace flyball::model
