// Reading tokenizer.ggml.* under suspicion.
#include "backends/text/tokenizer_metadata.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "backends/model/mlx_keys.hpp"
#include "backends/text/chat_template.hpp"
#include "backends/text/template_markers.hpp"
#include "config/ascii_lower.hpp"

namespace flyball::text {
namespace {

using model::GgufArray;
using model::GgufType;

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";

struct InfillIds {
  std::optional<Token> prefix, suffix, middle;
};

// Fill-in-the-middle and end-of-turn tokens that files often leave unnamed, found by their text.
struct WellKnown {
  std::array<std::string_view, 2> keys;  // the id's key, and its deprecated spelling
  std::array<std::string_view, 11> texts;
  bool ends_generation;
  std::optional<Token> InfillIds::*infill = nullptr;
};
constexpr WellKnown kWellKnown[] = {
    {{"tokenizer.ggml.eot_token_id", ""},
     {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
      "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"},
     true},
    {{"tokenizer.ggml.eom_token_id", ""}, {"<|eom_id|>"}, true},
    {{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
      "<|code_prefix|>", "<|prefix|>"},
     false,
     &InfillIds::prefix},
    {{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
      "<|code_suffix|>", "<|suffix|>"},
     false,
     &InfillIds::suffix},
    {{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
      "<|middle|>"},
     false,
     &InfillIds::middle},
    {{"tokenizer.ggml.fim_pad_token_id", ""},
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
     true},
    {{"tokenizer.ggml.fim_rep_token_id", ""},
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
     true},
    {{"tokenizer.ggml.fim_sep_token_id", ""}, {"<|file_sep|>"}, true},
};

// Tokens that end a generation wherever a vocabulary has them.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

std::optional<Token> find_token(const StringTable& pieces, std::string_view text) {
  const auto found = pieces.find(text);
  if (!found) return std::nullopt;
  return static_cast<Token>(*found);
}

Result<std::optional<Token>> read_token_id(const model::Gguf& file, std::string_view key,
                                           std::size_t vocab_size) {
  auto value = file.get_uint(key);
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  if (**value >= vocab_size) {
    return vocabulary_error(key, "is token " + std::to_string(**value) + ", but the vocabulary holds " +
                                     std::to_string(vocab_size));
  }
  return static_cast<Token>(**value);
}

Result<void> read_pieces(const model::Gguf& file, StringTable& pieces) {
  auto tokens = require_strings(file, kTokensKey);
  if (!tokens) return pass(tokens);
  const auto& strings = (*tokens)->strings;
  if (strings.empty()) return vocabulary_error(kTokensKey, "is empty");
  std::size_t bytes = 0;
  for (const std::string_view string : strings) bytes += string.size();  // views into one file: no overflow
  if (bytes > kMaxArenaBytes) {
    return vocabulary_error(kTokensKey, "holds " + std::to_string(bytes) +
                                            " bytes of text, above the limit of " +
                                            std::to_string(kMaxArenaBytes));
  }
  pieces.reserve(strings.size(), bytes);
  std::size_t i = 0;
  for (const std::string_view string : strings) {
    if (string.size() > kMaxTokenBytes) {
      return vocabulary_error(kTokensKey, "has token " + std::to_string(i) + " of " +
                                              std::to_string(string.size()) + " bytes, above the limit of " +
                                              std::to_string(kMaxTokenBytes));
    }
    const std::string placeholder = string.empty() ? "[EMPTY_" + std::to_string(i) + "]" : std::string();
    const auto added = pieces.add(string.empty() ? std::string_view(placeholder) : string);
    if (!added) return vocabulary_error(kTokensKey, "cannot be indexed: its tokens' hashes collide");
    if (!added->added) {
      return vocabulary_error(kTokensKey, "has tokens " + std::to_string(added->id) + " and " +
                                              std::to_string(i) + " with the same text");
    }
    ++i;
  }
  return {};
}

Result<void> read_kinds(const model::Gguf& file, std::size_t vocab_size, std::vector<TokenKind>& kinds) {
  kinds.assign(vocab_size, TokenKind::normal);
  auto types = file.get_array(kTypesKey);
  if (!types) return pass(types);
  if (*types == nullptr) return {};
  const GgufArray& array = **types;
  if (array.type != GgufType::i32 && array.type != GgufType::u32) {
    return vocabulary_error(kTypesKey, "is not an array of 32-bit integers");
  }
  if (array.count != vocab_size) {
    return vocabulary_error(kTypesKey, "has " + std::to_string(array.count) + " entries for " +
                                           std::to_string(vocab_size) + " tokens");
  }
  for (std::size_t i = 0; i < vocab_size; ++i) {
    const std::int64_t type = array.int_at(i);
    if (type < 0 || type > 6) {
      return vocabulary_error(kTypesKey, "has type " + std::to_string(type) + " at token " +
                                             std::to_string(i) + "; types run from 0 to 6");
    }
    // 0 is "undefined": like unused, it has no text of its own and is not special.
    kinds[i] = type == 0 ? TokenKind::unused : static_cast<TokenKind>(type);
  }
  return {};
}

// Sets the flag of a key that may be absent.
Result<void> read_flag(const model::Gguf& file, std::string_view key, bool& flag) {
  auto value = file.get_bool(key);
  if (!value) return pass(value);
  if (*value) flag = **value;
  return {};
}

Result<void> read_well_known(const model::Gguf& file, VocabularyMetadata& out, std::vector<Token>& ends) {
  InfillIds infill;
  for (const WellKnown& known : kWellKnown) {
    std::optional<Token> id;
    for (const std::string_view key : known.keys) {
      if (key.empty()) continue;
      auto named = read_token_id(file, key, out.kinds.size());
      if (!named) return pass(named);
      if (*named) id = *named;
    }
    for (const std::string_view text : known.texts) {
      if (id || text.empty()) break;
      id = find_token(out.pieces, text);
      if (id) out.kinds[static_cast<std::size_t>(*id)] = TokenKind::control;
    }
    // CodeLlama's are words of its vocabulary; no text is to merge into one, whether or not a key names it.
    if (id && known.infill != nullptr &&
        std::ranges::find(known.texts, out.pieces[static_cast<std::uint32_t>(*id)]) != known.texts.end())
      out.kinds[static_cast<std::size_t>(*id)] = TokenKind::control;
    if (id && known.ends_generation) ends.push_back(*id);
    if (known.infill != nullptr) infill.*known.infill = id;
  }
  const auto& [prefix, suffix, middle] = infill;
  if (prefix && suffix && middle && *prefix != *suffix && *prefix != *middle && *suffix != *middle)
    out.infill = {*prefix, *suffix, *middle};
  return {};
}

// An MLX directory's own list; GGUF has none.
Result<void> read_ends(const model::Gguf& file, std::size_t vocab_size, std::vector<Token>& ends) {
  const auto listed = file.get_array(model::kEndsKey);
  if (!listed) return pass(listed);
  if (*listed == nullptr) return {};
  const GgufArray& array = **listed;
  if (array.type != GgufType::i32) return vocabulary_error(model::kEndsKey, "is not an array of i32");
  for (std::uint64_t i = 0; i < array.count; ++i) {
    const std::int64_t id = array.int_at(i);
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size)
      return vocabulary_error(
          model::kEndsKey,
          "names token " + std::to_string(id) + ", but the vocabulary holds " + std::to_string(vocab_size));
    ends.push_back(static_cast<Token>(id));
  }
  return {};
}

// Which tokens end a generation, from ids, well-known texts, and the exceptions three model families need.
void derive_ends(VocabularyMetadata& out, std::vector<Token> ends) {
  const auto token = [&](std::string_view text) { return find_token(out.pieces, text); };
  const auto set_kind = [&](Token id, TokenKind kind) { out.kinds[static_cast<std::size_t>(id)] = kind; };
  for (const std::string_view text : kEndTexts) {
    if (const auto id = token(text)) {
      ends.push_back(*id);
      set_kind(*id, TokenKind::control);
    }
  }
  for (const std::string_view text : kShownMarkers) {
    if (const auto id = token(text)) set_kind(*id, TokenKind::user_defined);
  }
  if (out.eos) ends.push_back(*out.eos);
  // gpt-oss and Solar end a message, not the generation, with <|end|>.
  const bool calls = token("<|call|>") || token("<|calls|>");
  if (const auto end = token("<|end|>"); end && calls && (token("<|return|>") || token("<|flush|>"))) {
    std::erase(ends, *end);
    set_kind(*end, TokenKind::user_defined);
  }
  // Gemma 4 writes </s> as text.
  if (const auto stop = token("</s>"); stop && token("<|tool_response>")) {
    std::erase(ends, *stop);
    set_kind(*stop, TokenKind::normal);
  }
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  out.end_of_generation = std::move(ends);
}

// After the kinds are settled. Tokens of other kinds than these are no text, or control tokens already.
void find_markers(const model::Gguf& file, VocabularyMetadata& out) {
  out.markers.assign(out.kinds.size(), false);
  const auto mark = [&](Token id) {
    const TokenKind kind = out.kinds[static_cast<std::size_t>(id)];
    if (kind == TokenKind::normal || kind == TokenKind::unused || kind == TokenKind::user_defined)
      out.markers[static_cast<std::size_t>(id)] = true;
  };
  for (std::uint32_t id = 0; id < out.kinds.size(); ++id) {
    const std::string_view text = out.pieces[id];
    if (out.kinds[id] == TokenKind::user_defined && (marks_turn(text) || is_barred(text)))
      mark(static_cast<Token>(id));
  }
  const InfillIds infill =
      out.infill ? InfillIds{out.infill->prefix, out.infill->suffix, out.infill->middle} : InfillIds{};
  for (const auto& id : {out.bos, out.eos, infill.prefix, infill.suffix, infill.middle})
    if (id && is_bracketed(out.pieces[static_cast<std::uint32_t>(*id)])) mark(*id);
  // A template that is no text, or too long, is refused where it is parsed.
  const auto named = file.get_string("tokenizer.chat_template");
  const std::string_view source = named ? named->value_or(default_chat_template()) : std::string_view{};
  if (source.size() > TemplateLimits{}.source_bytes) return;
  for (const std::string& text : markers_of(source))
    if (const auto id = find_token(out.pieces, text)) mark(*id);
}

bool is_special(TokenKind kind) noexcept {
  return kind == TokenKind::control || kind == TokenKind::user_defined || kind == TokenKind::unknown;
}

Result<void> check_special_bytes(const VocabularyMetadata& vocabulary) {
  std::size_t bytes = 0;
  for (std::uint32_t id = 0; id < vocabulary.kinds.size(); ++id) {
    if (is_special(vocabulary.kinds[id]) || vocabulary.markers[id]) bytes += vocabulary.pieces[id].size();
  }
  if (bytes > kMaxSpecialBytes) {
    return vocabulary_error(kTypesKey, "marks special tokens of " + std::to_string(bytes) +
                                           " bytes together, above the limit of " +
                                           std::to_string(kMaxSpecialBytes));
  }
  return {};
}

Result<bool> names_phi3(const model::Gguf& file) {
  auto name = file.get_string("general.name");
  if (!name) return pass(name);
  const std::string lower = ascii_lower(name->value_or(""));
  return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
}

}  // namespace

std::unexpected<Error> vocabulary_error(std::string_view key, const std::string& what) {
  return fail(ErrorCode::model_invalid, std::string(key) + " " + what, {}, std::string(key));
}

Result<const GgufArray*> require_strings(const model::Gguf& file, std::string_view key) {
  auto array = file.get_array(key);
  if (!array) return pass(array);
  if (*array == nullptr) return vocabulary_error(key, "is missing");
  if ((*array)->type != GgufType::string) return vocabulary_error(key, "is not an array of strings");
  return *array;
}

std::vector<SpecialToken> VocabularyMetadata::special_tokens() const {
  std::vector<SpecialToken> out;
  for (std::uint32_t id = 0; id < kinds.size(); ++id) {
    const TokenKind kind = kinds[id];
    if (!is_special(kind) && !markers[id]) continue;
    const bool always = kind == TokenKind::user_defined;
    const std::string_view text = pieces[id];
    const bool strips = strip_after_special && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    out.push_back({static_cast<Token>(id), std::string(text), always, false, strips, markers[id]});
  }
  return out;
}

Result<VocabularyMetadata> read_vocabulary(const model::Gguf& file, const VocabularyDefaults& defaults) {
  VocabularyMetadata out;
  if (auto read = read_pieces(file, out.pieces); !read) return pass(read);
  const std::size_t vocab_size = out.pieces.size();
  if (auto read = read_kinds(file, vocab_size, out.kinds); !read) return pass(read);

  struct Id {
    std::string_view key;
    std::optional<Token> standard;
    std::optional<Token>& id;
  };
  const Id ids[] = {{"tokenizer.ggml.bos_token_id", defaults.bos, out.bos},
                    {"tokenizer.ggml.eos_token_id", defaults.eos, out.eos},
                    {"tokenizer.ggml.unknown_token_id", defaults.unknown, out.unknown}};
  for (const Id& each : ids) {
    auto named = read_token_id(file, each.key, vocab_size);
    if (!named) return pass(named);
    each.id = *named ? *named : each.standard;
    if (each.id && static_cast<std::size_t>(*each.id) >= vocab_size) each.id.reset();
  }

  struct Flag {
    std::string_view key;
    bool standard;
    const std::optional<Token>& token;
    bool& flag;
  };
  const Flag flags[] = {{"tokenizer.ggml.add_bos_token", defaults.add_bos, out.bos, out.add_bos},
                        {"tokenizer.ggml.add_eos_token", defaults.add_eos, out.eos, out.add_eos}};
  for (const Flag& each : flags) {
    each.flag = each.standard && each.token;
    if (auto read = read_flag(file, each.key, each.flag); !read) return pass(read);
    if (each.flag && !each.token)
      return vocabulary_error(each.key, "is true, but the file names no such token");
  }

  auto phi3 = names_phi3(file);
  if (!phi3) return pass(phi3);
  out.strip_after_special = *phi3;
  std::vector<Token> ends;
  if (auto read = read_well_known(file, out, ends); !read) return pass(read);
  if (auto read = read_ends(file, vocab_size, ends); !read) return pass(read);
  derive_ends(out, std::move(ends));
  find_markers(file, out);
  if (auto checked = check_special_bytes(out); !checked) return pass(checked);
  return out;
}

}  // namespace flyball::text
