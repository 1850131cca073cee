// Names and defaults: transformers' configuration classes of the families, and mlx-lm's readings of them.
#include "backends/model/mlx_config.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "backends/model/model_config.hpp"

namespace flyball::model {
namespace {

using kernels::DType;
using nlohmann::json;

// Fields and the keys they are, after the architecture's name. Limits are model_config's.
struct Key {
  std::string_view field, key;
};
constexpr Key kCounts[] = {
    {"num_hidden_layers", "block_count"},
    {"hidden_size", "embedding_length"},
    {"intermediate_size", "feed_forward_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"max_position_embeddings", "context_length"},
    {"head_dim", "attention.key_length"},
    {"head_dim", "attention.value_length"},
    {"num_experts", "expert_count"},
    {"num_local_experts", "expert_count"},  // Mixtral
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
};
constexpr Key kNumbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_theta", "rope.freq_base"},
};

// model_type to GGUF's architecture.
struct ModelType {
  std::string_view name, architecture;
};
constexpr ModelType kModelTypes[] = {
    {"llama", "llama"}, {"mistral", "llama"}, {"mixtral", "llama"},
    {"qwen2", "qwen2"}, {"qwen3", "qwen3"},   {"qwen3_moe", "qwen3moe"},
};

Result<void> refuse_unless(const MlxObject& config, std::string_view field, const json& only) {
  const json* value = config.find(field);
  if (value == nullptr || *value == only) return {};
  return config.unsupported(field, "is " + shown(*value) + "; this build knows " + only.dump());
}

// What would make the model compute something else than its architecture does.
Result<void> refuse_variants(const MlxObject& config, std::string_view model_type) {
  const Result<void> each[] = {
      refuse_unless(config, "hidden_act", "silu"),
      refuse_unless(config, "partial_rotary_factor", 1.0),
      refuse_unless(config, "decoder_sparse_step", 1),
      refuse_unless(config, "mlp_only_layers", json::array()),
  };
  for (const auto& ok : each)
    if (!ok) return pass(ok);
  const json* top = config.find("norm_topk_prob");
  if (model_type == "qwen3_moe" && (top == nullptr || *top != true))
    return config.unsupported("norm_topk_prob", "is not true; this build knows nothing else");
  if (const json* layers = config.find("layer_types")) {
    const bool full = layers->is_array() &&
                      std::ranges::all_of(*layers, [](const json& l) { return l == "full_attention"; });
    if (!full) return config.unsupported("layer_types", "has others than \"full_attention\"");
  }
  // Mistral's first files; Qwen's name a window and do not use it.
  const auto window = config.count("sliding_window"), context = config.count("max_position_embeddings");
  if (!window) return pass(window);
  if (!context) return pass(context);
  const json* used = config.find("use_sliding_window");
  const bool uses = used == nullptr ? model_type == "mistral" || model_type == "mixtral" : *used != false;
  if (*window && uses && **window < context->value_or(0))
    return config.unsupported("sliding_window",
                              "is " + std::to_string(**window) + ": this build attends to the whole context");
  return {};
}

// The wave length decides how far a frequency is stretched: transformers, _compute_llama3_parameters.
Result<std::vector<float>> llama3_factors(const MlxObject& scaling, std::uint64_t head_dim, double base) {
  double values[4] = {};
  constexpr std::string_view kFields[] = {"factor", "low_freq_factor", "high_freq_factor",
                                          "original_max_position_embeddings"};
  for (std::size_t i = 0; i < std::size(kFields); ++i) {
    const auto value = scaling.number(kFields[i]);
    if (!value) return pass(value);
    if (!*value || **value <= 0.0 || **value > 1e9)
      return scaling.invalid(kFields[i], "is missing, or not above 0 and at most 1e9");
    values[i] = **value;
  }
  const auto [factor, low, high, context] = values;
  if (high <= low) return scaling.invalid("high_freq_factor", "is not above low_freq_factor");
  std::vector<float> out;
  for (std::uint64_t i = 0; i < head_dim; i += 2) {
    const double turns = context * std::pow(base, -static_cast<double>(i) / static_cast<double>(head_dim)) /
                         (2 * std::numbers::pi);  // within the context trained in
    const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    out.push_back(static_cast<float>(1 / ((1 - share) / factor + share)));
  }
  return out;
}

Result<void> translate_yarn(const MlxObject& scaling, double factor, const std::string& prefix,
                            GgufWriter& out) {
  for (const auto& [field, only] : {std::pair("mscale", 1.0), std::pair("mscale_all_dim", 0.0)})
    if (auto ok = refuse_unless(scaling, field, only); !ok) return pass(ok);
  if (auto ok = refuse_unless(scaling, "truncate", true); !ok) return pass(ok);
  for (const char* field : {"beta_fast", "beta_slow"}) {
    const auto value = scaling.number(field);
    if (!value) return pass(value);
    if (*value) out.set_f32(prefix + "rope.scaling.yarn_" + field, static_cast<float>(**value));
  }
  const auto attention = scaling.number("attention_factor");
  if (!attention) return pass(attention);
  // Ours stands beside YaRN's own 1 + 0.1 ln(factor); theirs is the product.
  if (*attention)
    out.set_f32(prefix + "rope.scaling.attn_factor",
                static_cast<float>(**attention / (factor > 1 ? 1 + 0.1 * std::log(factor) : 1.0)));
  return {};
}

Result<void> translate_rope_scaling(const MlxObject& scaling, const std::string& prefix, double base,
                                    std::uint64_t head_dim, GgufWriter& out, MlxConfig& config) {
  std::string type = "default";
  for (const char* field : {"type", "rope_type"}) {  // the older name, and the newer one, which counts
    auto named = scaling.text(field);
    if (!named) return pass(named);
    if (*named) type = **named;
  }
  if (type == "default") return {};
  if (type == "llama3") {
    auto factors = llama3_factors(scaling, head_dim, base);
    if (!factors) return pass(factors);
    config.rope_factors = std::move(*factors);
    return {};
  }
  if (type != "linear" && type != "yarn")
    return scaling.unsupported(
        "rope_type", "is \"" + printable(type) + "\"; this build knows default, linear, llama3 and yarn");
  const auto factor = scaling.number("factor");
  if (!factor) return pass(factor);
  if (!*factor || **factor < 1.0 || **factor > 1e6)
    return scaling.invalid("factor", "is missing, or not 1 to 1e6");
  out.set_string(prefix + "rope.scaling.type", type);
  out.set_f32(prefix + "rope.scaling.factor", static_cast<float>(**factor));
  const auto original = scaling.count("original_max_position_embeddings");
  if (!original) return pass(original);
  if (*original) {
    if (**original > kMaxContext)
      return scaling.invalid(
          "original_max_position_embeddings",
          "is " + std::to_string(**original) + ", the limit is " + std::to_string(kMaxContext));
    out.set_u32(prefix + "rope.scaling.original_context_length", static_cast<std::uint32_t>(**original));
  }
  return type == "yarn" ? translate_yarn(scaling, **factor, prefix, out) : Result<void>();
}

Result<void> translate_rope(const MlxObject& config, const std::string& prefix, GgufWriter& out,
                            MlxConfig& result) {
  const auto traditional = config.flag("rope_traditional");  // mlx-lm's own: pairs of neighbours
  if (!traditional) return pass(traditional);
  if (traditional->value_or(false)) result.rope_style = kernels::RopeStyle::interleaved;
  // transformers 5 has the base and the scaling in one object.
  auto scaling = config.object("rope_scaling");
  if (scaling && !*scaling) scaling = config.object("rope_parameters");
  if (!scaling) return pass(scaling);
  auto base = config.number("rope_theta");
  if (base && !*base && *scaling) {
    base = (*scaling)->number("rope_theta");
    if (base && *base) out.set_f32(prefix + "rope.freq_base", static_cast<float>(**base));
  }
  if (!base) return pass(base);
  if (!*scaling) return {};
  const auto head_dim = config.count("head_dim"), dim = config.count("hidden_size"),
             heads = config.count("num_attention_heads");
  if (!head_dim || !dim || !heads) return {};  // refused with the other counts
  const std::uint64_t size =
      head_dim->value_or(dim->value_or(0) / std::max<std::uint64_t>(heads->value_or(1), 1));
  if (size > kMaxHeadDim) return {};  // refused by model_config
  return translate_rope_scaling(**scaling, prefix, base->value_or(10'000.0), size, out, result);
}

Result<DType> quantization_of(const MlxObject& map) {
  const auto mode = map.text("mode");
  if (!mode) return pass(mode);
  if (mode->value_or("affine") != "affine")
    return map.unsupported("mode", "is \"" + printable(**mode) + "\"; this build knows affine");
  const auto group = map.count("group_size"), bits = map.count("bits");
  if (!group) return pass(group);
  if (!bits) return pass(bits);
  if (!*group || !*bits) return map.invalid(*group ? "bits" : "group_size", "is missing");
  for (const DType type : kernels::kAffineDTypes) {
    const auto affine = kernels::affine_of(type);
    if (affine->bits == **bits && affine->group == **group) return type;
  }
  return map.unsupported("bits", "are " + std::to_string(**bits) + " in groups of " +
                                     std::to_string(**group) +
                                     "; this build knows 2, 3, 4, 6 and 8 in groups of 32 and 64");
}

Result<void> read_quantization(const MlxObject& config, MlxConfig& out) {
  auto map = config.object("quantization");
  if (map && !*map) map = config.object("quantization_config");
  if (!map) return pass(map);
  if (!*map) return {};
  if (const json* method = (*map)->find("quant_method"))
    return (*map)->unsupported("quant_method", "is " + shown(*method) + ", not MLX's own quantization");
  const auto all = quantization_of(**map);
  if (!all) return pass(all);
  out.quantized = *all;
  for (const auto& [module, value] : (*map)->value().items()) {
    if (value.is_object()) {
      const auto type = quantization_of(MlxObject(value, (*map)->file() + " " + printable(module)));
      if (!type) return pass(type);
      out.quantized_otherwise[module] = *type;
    } else if (value == false) {
      out.quantized_otherwise[module] = std::nullopt;
    }
  }
  return {};
}

}  // namespace

std::string_view mlx_field_of(std::string_view gguf_key) {
  const auto dot = gguf_key.find('.');
  if (dot == std::string_view::npos) return {};
  const auto name = gguf_key.substr(dot + 1);
  for (const Key& key : kCounts)
    if (key.key == name) return key.field;
  for (const Key& key : kNumbers)
    if (key.key == name) return key.field;
  return gguf_key == "general.architecture" ? "model_type" : "";
}

Result<MlxConfig> translate_mlx_config(const MlxObject& config, GgufWriter& out) {
  MlxConfig result;
  auto model_type = config.text("model_type");
  if (!model_type) return pass(model_type);
  if (!*model_type) return config.invalid("model_type", "is missing");
  const auto* known = std::ranges::find(kModelTypes, **model_type, &ModelType::name);
  if (known == std::end(kModelTypes)) {
    std::string names;
    for (const ModelType& type : kModelTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
    return config.unsupported(
        "model_type", "is " + printable(**model_type) + "; of MLX's directories this build knows " + names);
  }
  const std::string architecture(known->architecture);
  const std::string prefix = architecture + ".";
  out.set_string("general.architecture", architecture);
  if (auto ok = refuse_variants(config, **model_type); !ok) return pass(ok);

  std::vector<std::string_view> written;
  for (const auto& [field, key] : kCounts) {
    const auto value = config.count(field);
    if (!value) return pass(value);
    if (!*value || std::ranges::find(written, key) != written.end()) continue;
    if (**value > std::numeric_limits<std::uint32_t>::max())
      return config.invalid(field, "is " + std::to_string(**value) + ", beyond 32 bits");
    out.set_u32(prefix + std::string(key), static_cast<std::uint32_t>(**value));
    written.push_back(key);
  }
  for (const auto& [field, key] : kNumbers) {
    const auto value = config.number(field);
    if (!value) return pass(value);
    if (*value) out.set_f32(prefix + std::string(key), static_cast<float>(**value));
  }
  if (config.find("rms_norm_eps") == nullptr) return config.invalid("rms_norm_eps", "is missing");
  const auto vocab = config.count("vocab_size");
  if (!vocab) return pass(vocab);
  if (vocab->value_or(0) == 0 || **vocab > kMaxVocab)
    return config.invalid("vocab_size", "is missing, or not 1 to " + std::to_string(kMaxVocab) +
                                            (*vocab ? ": it is " + std::to_string(**vocab) : ""));
  result.vocab_size = **vocab;
  const auto tied = config.flag("tie_word_embeddings");
  if (!tied) return pass(tied);
  result.tied = *tied;
  if (auto ok = translate_rope(config, prefix, out, result); !ok) return pass(ok);
  if (auto ok = read_quantization(config, result); !ok) return pass(ok);
  return result;
}

}  // namespace flyball::model
