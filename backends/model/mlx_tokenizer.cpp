// Kinds of tokens and what ends a generation: as llama.cpp's converter reads the same files.
#include "backends/model/mlx_tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/mlx_keys.hpp"
#include "backends/model/mlx_splits.hpp"

namespace flyball::model {
namespace {

using nlohmann::json;

// tokenizer.ggml.token_type
enum TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct Tokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> kinds;
  std::map<std::string, std::uint32_t, std::less<>> ids;
};

bool is_byte_piece(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && hex(text[3]) && hex(text[4]) && text[5] == '>';
}

Result<void> place_token(const MlxObject& where, std::string_view field, const std::string& text,
                         std::uint64_t id, TokenType kind, Tokens& tokens) {
  if (id >= tokens.texts.size())
    return where.invalid(field, "has token " + std::to_string(id) + ", but the embedding table " +
                                    std::to_string(tokens.texts.size()) + " rows");
  const auto at = static_cast<std::uint32_t>(id);
  const bool again = tokens.kinds[at] != kUnused && tokens.texts[at] == text;
  if (tokens.kinds[at] != kUnused && !again)
    return where.invalid(field, "has both \"" + printable(tokens.texts[at]) + "\" and \"" + printable(text) +
                                    "\" as token " + std::to_string(id));
  if (!again && !tokens.ids.emplace(text, at).second)
    return where.invalid(field, "has \"" + printable(text) + "\" as two tokens");
  tokens.texts[at] = text;
  tokens.kinds[at] = kind;
  return {};
}

Result<void> read_vocab(const MlxObject& model, bool pieces, Tokens& tokens) {
  const json* vocab = model.find("vocab");
  if (vocab == nullptr || !vocab->is_object()) return model.invalid("vocab", "is missing, or no object");
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_unsigned()) return model.invalid("vocab", "has a token that is no count");
    const TokenType kind = pieces && is_byte_piece(text) ? kByte : kNormal;
    if (auto ok = place_token(model, "vocab", text, id.get<std::uint64_t>(), kind, tokens); !ok)
      return pass(ok);
  }
  return {};
}

Result<void> read_added(const MlxObject& tokenizer, Tokens& tokens) {
  const json* list = tokenizer.find("added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return tokenizer.invalid("added_tokens", "is no list");
  for (const json& entry : *list) {
    if (!entry.is_object()) return tokenizer.invalid("added_tokens", "holds something that is no object");
    const MlxObject added(entry, tokenizer.file() + " added_tokens");
    auto text = added.text("content");
    const auto id = added.count("id");
    const auto special = added.flag("special");
    if (!text) return pass(text);
    if (!id) return pass(id);
    if (!special) return pass(special);
    if (!*text || !*id) return added.invalid(*text ? "id" : "content", "is missing");
    for (const char* field : {"single_word", "lstrip", "rstrip"}) {
      const auto flag = added.flag(field);
      if (!flag) return pass(flag);
      if (flag->value_or(false))
        return added.unsupported(field,
                                 "of \"" + printable(**text) + "\" is true, which this build does not know");
    }
    const TokenType kind = special->value_or(false) ? kControl : kUserDefined;
    if (auto ok = place_token(added, "id", **text, **id, kind, tokens); !ok) return pass(ok);
  }
  return {};
}

// Tokens that nobody named, as converters of GGUF name them.
void fill_up(Tokens& tokens) {
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (tokens.kinds[id] != kUnused) continue;
    std::string name = "[PAD" + std::to_string(id) + "]";
    while (tokens.ids.contains(name)) name += "]";
    tokens.texts[id] = std::move(name);
  }
}

// "left right" or ["left", "right"].
Result<std::vector<std::string>> read_merges(const MlxObject& model) {
  const json* list = model.find("merges");
  if (list == nullptr || !list->is_array()) return model.invalid("merges", "is missing, or no list");
  std::vector<std::string> out;
  out.reserve(list->size());
  for (const json& entry : *list) {
    if (entry.is_string()) {
      out.push_back(entry.get<std::string>());
      continue;
    }
    const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string();
    if (!pair)
      return model.invalid("merges", "has entry " + std::to_string(out.size()) + ", which is no pair");
    const auto &left = entry[0].get_ref<const std::string&>(),
               &right = entry[1].get_ref<const std::string&>();
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos)
      return model.unsupported("merges", "has a space inside entry " + std::to_string(out.size()));
    out.push_back(left + " " + right);
  }
  return out;
}

// A token that tokenizer_config.json names by its text, or as an object with a "content".
Result<std::optional<std::uint32_t>> named_token(const MlxObject& config, const char* field,
                                                 const Tokens& tokens) {
  const json* value = config.find(field);
  if (value != nullptr && value->is_object()) {
    const auto content = value->find("content");
    value = content == value->end() ? nullptr : &*content;
  }
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return config.invalid(field, "is " + shown(*value) + ", no token's text");
  const auto it = tokens.ids.find(value->get_ref<const std::string&>());
  if (it == tokens.ids.end()) return config.invalid(field, "is " + shown(*value) + ", which is no token");
  return it->second;
}

// One id, or a list of them.
Result<std::vector<std::uint32_t>> read_ids(const MlxObject& config, const char* field,
                                            const Tokens& tokens) {
  std::vector<std::uint32_t> out;
  const json* value = config.find(field);
  if (value == nullptr) return out;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= tokens.texts.size())
      return config.invalid(
          field, "is " + shown(id) + "; tokens are counts below " + std::to_string(tokens.texts.size()));
    out.push_back(id.get<std::uint32_t>());
  }
  return out;
}

// Whether a post-processor puts a special token first: a TemplateProcessing, perhaps in a sequence.
bool begins_with_special(const json& processor) {
  if (!processor.is_object()) return false;
  const auto type = processor.find("type");
  if (type == processor.end()) return false;
  if (*type == "Sequence") {
    const auto parts = processor.find("processors");
    return parts != processor.end() && parts->is_array() &&
           std::ranges::any_of(*parts, [](const json& part) {  // one level: sequences do not nest
             const auto inner = part.is_object() ? part.find("type") : part.end();
             return part.is_object() && inner != part.end() && *inner != "Sequence" &&
                    begins_with_special(part);
           });
  }
  const auto single = processor.find("single");
  return *type == "TemplateProcessing" && single != processor.end() && single->is_array() &&
         !single->empty() && single->front().is_object() && single->front().contains("SpecialToken");
}

Result<void> write_specials(const MlxObject& tokenizer, const MlxObject& tokenizer_config,
                            const MlxObject& config, const MlxObject& generation, Tokens& tokens,
                            GgufWriter& out) {
  auto bos = named_token(tokenizer_config, "bos_token", tokens);
  if (!bos) return pass(bos);
  auto eos = named_token(tokenizer_config, "eos_token", tokens);
  if (!eos) return pass(eos);
  std::vector<std::int32_t> ends;  // the tokenizer's own first; at most one for each token
  std::vector<bool> is_end(tokens.texts.size());
  const auto add_end = [&](std::uint32_t id) {
    if (!is_end[id]) ends.push_back(static_cast<std::int32_t>(id));
    is_end[id] = true;
  };
  if (*eos) add_end(**eos);
  for (const MlxObject* file : {&generation, &config}) {
    const auto ids = read_ids(*file, "eos_token_id", tokens);
    if (!ids) return pass(ids);
    for (const std::uint32_t id : *ids) add_end(id);
  }
  if (!ends.empty()) {
    out.set_u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(ends.front()));
    out.set_i32s(kEndsKey, ends);
  }
  if (!*bos) {
    const auto ids = read_ids(config, "bos_token_id", tokens);
    if (!ids) return pass(ids);
    // Qwen's config.json names one that its tokenizer does not use.
    if (!ids->empty() && tokenizer_config.value().empty()) *bos = ids->front();
  }
  if (*bos) out.set_u32("tokenizer.ggml.bos_token_id", **bos);

  auto adds_bos = tokenizer_config.flag("add_bos_token");
  if (!adds_bos) return pass(adds_bos);
  const json* processor = tokenizer.find("post_processor");
  if (!*adds_bos) *adds_bos = processor != nullptr && begins_with_special(*processor);
  out.set_bool("tokenizer.ggml.add_bos_token", **adds_bos && bos->has_value());
  const auto adds_eos = tokenizer_config.flag("add_eos_token");
  if (!adds_eos) return pass(adds_eos);
  out.set_bool("tokenizer.ggml.add_eos_token", adds_eos->value_or(false) && !ends.empty());
  return {};
}

}  // namespace

Result<void> translate_mlx_tokenizer(const MlxObject& tokenizer, const MlxObject& tokenizer_config,
                                     const MlxObject& config, const MlxObject& generation,
                                     std::uint64_t vocab_size, GgufWriter& out) {
  const auto model = tokenizer.object("model");
  if (!model) return pass(model);
  if (!*model) return tokenizer.invalid("model", "is missing");
  const auto type = (*model)->text("type");
  if (!type) return pass(type);
  if (type->value_or("BPE") != "BPE")
    return (*model)->unsupported("type", "is \"" + printable(**type) + "\"; this build knows BPE");
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    const json* value = (*model)->find(field);
    if (value != nullptr && *value != "" && *value != 0.0)
      return (*model)->unsupported(field, "is " + shown(*value) + "; this build knows none");
  }
  const auto split = recognize_mlx_split(tokenizer, **model);
  if (!split) return pass(split);
  const bool pieces = split->pre.empty();

  Tokens tokens;
  tokens.texts.resize(vocab_size);
  tokens.kinds.assign(vocab_size, kUnused);
  if (auto ok = read_vocab(**model, pieces, tokens); !ok) return pass(ok);
  if (auto ok = read_added(tokenizer, tokens); !ok) return pass(ok);
  const auto unknown = named_token(**model, "unk_token", tokens);
  if (!unknown) return pass(unknown);
  if (*unknown && pieces) {
    tokens.kinds[**unknown] = kUnknown;
    out.set_u32("tokenizer.ggml.unknown_token_id", **unknown);
  }
  if (auto ok = write_specials(tokenizer, tokenizer_config, config, generation, tokens, out); !ok)
    return pass(ok);
  const auto merges = read_merges(**model);
  if (!merges) return pass(merges);
  fill_up(tokens);

  out.set_string("tokenizer.ggml.model", pieces ? "llama" : "gpt2");
  out.set_strings("tokenizer.ggml.tokens", tokens.texts);
  out.set_i32s("tokenizer.ggml.token_type", tokens.kinds);
  if (pieces) {
    out.set_bool("tokenizer.ggml.add_space_prefix", split->space_prefix);
    out.set_bool(kPrefixOnceKey, split->prefix_once);
    out.set_bool(kPrefixIfNoneKey, split->prefix_if_none);
    out.set_strings(kMergesKey, *merges);
  } else {
    out.set_string("tokenizer.ggml.pre", split->pre);
    out.set_strings("tokenizer.ggml.merges", *merges);
  }
  return {};
}

}  // namespace flyball::model
