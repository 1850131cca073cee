#include "backends/model/mlx.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/model/gguf_writer.hpp"
#include "backends/model/invalid.hpp"
#include "backends/model/mlx_config.hpp"
#include "backends/model/mlx_tensors.hpp"
#include "backends/model/mlx_tokenizer.hpp"
#include "backends/model/safetensors.hpp"
#include "backends/model/weight_roles.hpp"
#include "config/json_reader.hpp"

namespace flyball::model {
namespace {

using nlohmann::json;

// Vocabularies of 262,144 tokens have 580,000 merges of two parts each; what nests in a tokenizer.json is
// shallow.
constexpr JsonLimits kTokenizerLimits{.depth = 16, .nodes = 4'000'000};
constexpr JsonLimits kConfigLimits{.depth = 16, .nodes = 500'000};
// A name and a file for each tensor: Kimi K2 Thinking's experts have 207,000.
constexpr JsonLimits kIndexLimits{.depth = 16, .nodes = 2'000'000};

// An absent file that may be absent is an empty object.
Result<json> read_object(std::string_view text, const char* name, JsonLimits limits, bool optional) {
  if (text.empty() && optional) return json::object();
  auto value = read_json(text, limits, name);
  if (!value) return invalid(value.error().message, std::string(name) + " " + value.error().where);
  if (!value->is_object()) return invalid(std::string(name) + " is not a JSON object", name);
  return value;
}

// tokenizer_config.json: a text, or named ones of which "default" is meant.
Result<void> write_chat_template(const MlxObject& config, std::string_view file, GgufWriter& out) {
  constexpr const char* kKey = "tokenizer.chat_template";
  if (!file.empty()) {
    out.set_string(kKey, file);
    return {};
  }
  const json* value = config.find("chat_template");
  if (value == nullptr) return {};
  if (value->is_array()) {
    const auto it = std::ranges::find_if(*value, [](const json& entry) {
      return entry.is_object() && entry.contains("template") && entry.contains("name") &&
             entry.at("name") == "default";
    });
    if (it == value->end()) return config.invalid("chat_template", "is a list without \"default\"");
    value = &it->at("template");
  }
  if (!value->is_string()) return config.invalid("chat_template", "is " + shown(*value) + ", not a text");
  out.set_string(kKey, value->get_ref<const std::string&>());
  return {};
}

Result<std::vector<SafeTensor>> read_shards(const std::vector<MlxFiles::Shard>& shards) {
  std::vector<SafeTensor> out;
  for (const MlxFiles::Shard& shard : shards) {
    auto tensors = read_safetensors(shard.bytes);
    if (!tensors) {
      Error error = std::move(tensors.error());
      error.message = printable(shard.name) + ": " + error.message;
      return std::unexpected(std::move(error));
    }
    if (out.size() + tensors->size() > kMaxSafetensors)
      return invalid("the files up to " + printable(shard.name) + " have " +
                         std::to_string(out.size() + tensors->size()) + " tensors, the limit is " +
                         std::to_string(kMaxSafetensors),
                     printable(shard.name));
    std::ranges::move(*tensors, std::back_inserter(out));
  }
  return out;
}

// The table decides how many tokens there are: nothing is made for more rows than it has.
Result<void> check_vocabulary(const std::vector<GgufTensor>& tensors, std::uint64_t vocab_size) {
  const auto it = std::ranges::find(tensors, tensor_name(WeightRole::token_embedding), &GgufTensor::name);
  if (it == tensors.end())
    return invalid("the tensor model.embed_tokens.weight is missing", "model.embed_tokens.weight");
  if (it->rows() == vocab_size) return {};
  return invalid("config.json: vocab_size is " + std::to_string(vocab_size) +
                     ", but model.embed_tokens.weight has " + std::to_string(it->rows()) + " rows",
                 "vocab_size");
}

}  // namespace

Error in_mlx_terms(Error error) {
  if (const auto field = mlx_field_of(error.where); !field.empty()) {
    error.message += " (config.json: " + std::string(field) + ")";
    error.where = field;
  } else if (auto name = mlx_tensor_name(error.where); !name.empty()) {
    error.message += " (" + name + ")";
    error.where = std::move(name);
  }
  return error;
}

Result<std::vector<std::string>> read_mlx_index(std::string_view text) {
  constexpr const char* kName = "model.safetensors.index.json";
  const auto index = read_object(text, kName, kIndexLimits, false);
  if (!index) return pass(index);
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty())
    return invalid(std::string(kName) + ": weight_map is missing, or no object with something in it",
                   "weight_map");
  std::vector<std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (!name.ends_with(".safetensors") || name.starts_with('.') || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      return invalid(std::string(kName) + ": " + printable(tensor) + " lies in " + shown(file) +
                         ", which is no safetensors file of this directory",
                     "weight_map");
    out.push_back(name);
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  if (out.size() > kMaxMlxShards)
    return invalid(std::string(kName) + ": " + std::to_string(out.size()) + " files, the limit is " +
                       std::to_string(kMaxMlxShards),
                   "weight_map");
  return out;
}

Result<MlxModel> read_mlx(const MlxFiles& files) {
  const auto config_json = read_object(files.config, "config.json", kConfigLimits, false);
  if (!config_json) return pass(config_json);
  const auto generation_json =
      read_object(files.generation_config, "generation_config.json", kConfigLimits, true);
  if (!generation_json) return pass(generation_json);
  const auto text_json = read_object(files.tokenizer_config, "tokenizer_config.json", kConfigLimits, true);
  if (!text_json) return pass(text_json);
  const MlxObject config(*config_json, "config.json");
  const MlxObject text(*text_json, "tokenizer_config.json");

  GgufWriter metadata;
  const auto translated = translate_mlx_config(config, metadata);
  if (!translated) return pass(translated);
  const auto shards = read_shards(files.shards);
  if (!shards) return pass(shards);
  auto storage = std::make_unique<MlxStorage>();
  auto tensors = translate_mlx_tensors(*shards, *translated, storage->tensors);
  if (!tensors) return pass(tensors);
  if (auto ok = check_vocabulary(*tensors, translated->vocab_size); !ok) return pass(ok);
  if (!translated->rope_factors.empty()) {
    const auto& factors = storage->tensors.vectors.emplace_back(translated->rope_factors);
    GgufTensor& tensor = tensors->emplace_back();
    tensor.name = kRopeFrequencies;
    tensor.n_dims = 1;
    tensor.dims[0] = factors.size();
    tensor.data = std::as_bytes(std::span(factors));
  }
  {
    const auto tokenizer = read_object(files.tokenizer, "tokenizer.json", kTokenizerLimits, false);
    if (!tokenizer) return pass(tokenizer);
    if (auto ok = translate_mlx_tokenizer(MlxObject(*tokenizer, "tokenizer.json"), text, config,
                                          MlxObject(*generation_json, "generation_config.json"),
                                          translated->vocab_size, metadata);
        !ok)
      return pass(ok);
  }
  if (auto ok = write_chat_template(text, files.chat_template, metadata); !ok) return pass(ok);

  storage->metadata = metadata.header();
  auto gguf = Gguf::assemble(std::as_bytes(std::span(storage->metadata)), std::move(*tensors));
  if (!gguf) return std::unexpected(in_mlx_terms(std::move(gguf.error())));
  auto shape = read_model_config(*gguf);
  if (!shape) return std::unexpected(in_mlx_terms(std::move(shape.error())));
  shape->rope_style = translated->rope_style;
  return MlxModel{std::move(*gguf), std::move(*shape), std::move(storage)};
}

}  // namespace flyball::model
