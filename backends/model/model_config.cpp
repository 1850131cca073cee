// Metadata of a file of a known family to a validated shape.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; YaRN: https://arxiv.org/abs/2309.00071
#include "backends/model/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

#include "backends/model/invalid.hpp"
#include "backends/model/weight_names.hpp"

namespace flyball::model {
namespace {

// What the families differ in; the metadata keys begin with the name.
struct Family {
  std::string_view name;
  kernels::RopeStyle rope_style;
  bool qkv_bias, qk_norm;
  enum class Experts : std::uint8_t { never, some_files, always } experts;
};
constexpr Family kFamilies[] = {
    {"llama", kernels::RopeStyle::interleaved, false, false, Family::Experts::some_files},  // and Mixtral
    {"qwen2", kernels::RopeStyle::half, true, false, Family::Experts::never},
    {"qwen3", kernels::RopeStyle::half, false, true, Family::Experts::never},
    {"qwen3moe", kernels::RopeStyle::half, false, true, Family::Experts::always},
};

// Reads keys beneath one architecture's prefix, keeping the first error so that a row of reads stays a row.
class KeyReader {
 public:
  KeyReader(const Gguf& file, std::string prefix) : file_(&file), prefix_(std::move(prefix)) {}

  // Absent: fallback. 0 as fallback means the key is required.
  std::uint32_t count(std::string_view name, std::uint64_t limit, std::uint64_t fallback = 0) {
    const auto key = prefix_ + std::string(name);
    const auto value = file_->get_uint(key);
    if (!value) return keep(value.error());
    if (!*value && fallback == 0) return keep(missing(key));
    const auto n = value->value_or(fallback);
    if (n == 0 || n > limit) {
      return keep(Error{ErrorCode::model_invalid,
                        key + " is " + std::to_string(n) + "; 1 to " + std::to_string(limit) + " is allowed",
                        {},
                        key});
    }
    return static_cast<std::uint32_t>(n);
  }

  // Absent or 0: 0.
  std::uint32_t count_or_none(std::string_view name, std::uint64_t limit) {
    const auto value = file_->get_uint(key(name));
    if (!value) return keep(value.error());
    return value->value_or(0) == 0 ? 0 : count(name, limit);
  }

  // Absent: fallback. Must lie in [low, high].
  float number(std::string_view name, float low, float high, float fallback) {
    const auto key = prefix_ + std::string(name);
    const auto value = file_->get_float(key);
    if (!value) return static_cast<float>(keep(value.error()));
    if (!*value) return fallback;
    if (**value < static_cast<double>(low) || **value > static_cast<double>(high)) {
      return static_cast<float>(
          keep(Error{ErrorCode::model_invalid,
                     key + " is " + std::to_string(**value) + "; " + std::to_string(low) + " to " +
                         std::to_string(high) + " is allowed",
                     {},
                     key}));
    }
    return static_cast<float>(**value);
  }

  std::string text(std::string_view name) {
    const auto value = file_->get_string(prefix_ + std::string(name));
    if (!value) return keep(value.error()), std::string();
    return std::string(value->value_or(""));
  }

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_->metadata().contains(prefix_ + std::string(name)); }

  // A count that some files give per layer; only files whose layers agree are read.
  std::uint32_t uniform_count(std::string_view name, std::uint64_t limit, std::uint64_t fallback) {
    const auto key = prefix_ + std::string(name);
    const auto it = file_->metadata().find(key);
    const auto* array = it == file_->metadata().end() ? nullptr : std::get_if<GgufArray>(&it->second);
    if (array == nullptr) return count(name, limit, fallback);
    const bool integers = array->count > 0 && array->type != GgufType::string &&
                          array->type != GgufType::f32 && array->type != GgufType::f64 &&
                          array->type != GgufType::boolean;
    const std::int64_t first = integers ? array->int_at(0) : 0;
    bool same = first > 0 && static_cast<std::uint64_t>(first) <= limit;
    for (std::uint64_t i = 1; same && i < array->count; ++i) same = array->int_at(i) == first;
    if (!same) {
      return keep(Error{ErrorCode::model_invalid,
                        key + " differs between layers, which this build does not read",
                        {},
                        key});
    }
    return static_cast<std::uint32_t>(first);
  }

  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  static Error missing(const std::string& key) {
    return {ErrorCode::model_invalid, "the metadata key " + key + " is missing", {}, key};
  }
  std::uint32_t keep(Error error) {
    if (!error_) error_ = std::move(error);
    return 1;  // harmless in the divisions between here and the check of error()
  }

  const Gguf* file_;
  std::string prefix_;
  std::optional<Error> error_;
};

Result<void> read_frequency_factors(const Gguf& file, RopeConfig& rope) {
  const auto* tensor = file.tensor(weight_names::kRopeFrequencies);
  if (tensor == nullptr) return {};
  const std::string name(weight_names::kRopeFrequencies);
  if (tensor->type != kernels::DType::f32 || tensor->dims[0] != rope.dim / 2 || tensor->rows() != 1) {
    return invalid("the tensor " + name + " must be F32 of " + std::to_string(rope.dim / 2) + " values",
                   name);
  }
  rope.frequency_factors.resize(tensor->dims[0]);
  std::memcpy(rope.frequency_factors.data(), tensor->data.data(), tensor->data.size());
  for (const float factor : rope.frequency_factors) {
    if (!std::isfinite(factor) || factor <= 0.0F)
      return invalid("the tensor " + name + " has a factor that is not positive", name);
  }
  if (rope.scaling == RopeScaling::none) rope.scaling = RopeScaling::llama3;
  return {};
}

Result<RopeConfig> read_rope(const Gguf& file, KeyReader& keys, std::uint32_t head_dim,
                             std::uint32_t context_length) {
  RopeConfig rope;
  rope.dim = keys.count("rope.dimension_count", head_dim, head_dim);
  rope.base = keys.number("rope.freq_base", 2.0F, 1e12F, 10'000.0F);
  const auto type = keys.text("rope.scaling.type");
  // rope.scale_linear is the older spelling of the factor.
  const bool legacy = !keys.has("rope.scaling.factor");
  const float factor = keys.number(legacy ? "rope.scale_linear" : "rope.scaling.factor", 1e-3F, 1e6F, 1.0F);
  rope.attn_factor = keys.number("rope.scaling.attn_factor", 1e-3F, 1e3F, 1.0F);
  rope.original_context = keys.count("rope.scaling.original_context_length", kMaxContext, context_length);
  rope.beta_fast = keys.number("rope.scaling.yarn_beta_fast", 1e-3F, 1e6F, rope.beta_fast);
  rope.beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-3F, 1e6F, rope.beta_slow);
  if (keys.error()) return std::unexpected(*keys.error());
  if (rope.dim % 2 != 0) {
    return invalid("rope.dimension_count is " + std::to_string(rope.dim) + "; it must be even",
                   keys.key("rope.dimension_count"));
  }
  if (type == "linear" || (type.empty() && factor != 1.0F)) {
    rope.scaling = RopeScaling::linear;
    rope.factor = factor;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.factor = factor;
  } else if (!type.empty() && type != "none") {
    return invalid("the RoPE scaling type " + printable(type) + " is not one of none, linear and yarn",
                   keys.key("rope.scaling.type"));
  }
  if (auto ok = read_frequency_factors(file, rope); !ok) return std::unexpected(ok.error());
  return rope;
}

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
  // Mixtral's files have no other length than that of the experts.
  config.expert_ffn_dim = keys.has("expert_feed_forward_length")
                              ? keys.count("expert_feed_forward_length", kMaxFfnDim)
                              : keys.uniform_count("feed_forward_length", kMaxFfnDim, 0);
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

Result<ModelConfig> read_model_config(const Gguf& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) return std::unexpected(architecture.error());
  if (!*architecture)
    return invalid("the metadata key general.architecture is missing", "general.architecture");
  const auto* family = std::ranges::find(kFamilies, **architecture, &Family::name);
  if (family == std::end(kFamilies)) {
    std::string known;
    for (const Family& f : kFamilies) known += (known.empty() ? "" : ", ") + std::string(f.name);
    return invalid("the architecture " + printable(**architecture) + " is not one this build knows: " + known,
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
  config.norm_eps = keys.number("attention.layer_norm_rms_epsilon", 0.0F, 1.0F, 1e-5F);
  if (keys.error()) return std::unexpected(*keys.error());

  if (config.n_experts > 0 && family->experts == Family::Experts::never) {
    return invalid("a mixture of " + std::to_string(config.n_experts) + " experts, which no " +
                       config.architecture + " model has",
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
  auto rope = read_rope(file, keys, config.head_dim, config.context_length);
  if (!rope) return std::unexpected(std::move(rope.error()));
  config.rope = std::move(*rope);
  const auto vocab = read_vocab_size(file);
  if (!vocab) return std::unexpected(vocab.error());
  config.vocab_size = *vocab;
  config.tied_embeddings = file.tensor(weight_names::kOutput) == nullptr;
  return config;
}

}  // namespace flyball::model
