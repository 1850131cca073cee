// What a GGUF file says of its vocabulary, validated and independent of the file's bytes. Keys and derived
// sets (end of generation, overridden kinds) follow llama.cpp's reading of the same file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/model/gguf.hpp"
#include "backends/text/tokenizer.hpp"
#include "backends/text/tokenizer_special.hpp"
#include "backends/text/tokenizer_strings.hpp"

namespace flyball::text {

inline constexpr std::size_t kMaxTokenBytes = 16'384;  // of one token's text; real ones stay under 1,024

// What holds where the file is silent.
struct VocabularyDefaults {
  std::optional<Token> bos, eos, unknown;  // dropped where beyond the vocabulary
  bool add_bos = false, add_eos = false;
};

struct VocabularyMetadata {
  StringTable pieces;  // by token, indexed
  std::vector<TokenKind> kinds;
  // By token: whether it is a marker of the chat template, matched in the template's own text alone although
  // the file types it as a word or as user-defined. Its kind says how answers show it.
  std::vector<bool> markers;
  std::optional<Token> bos, eos, unknown;
  bool add_bos = false, add_eos = false;
  std::optional<InfillTokens> infill;    // nullopt: the vocabulary lacks one of them
  std::vector<Token> end_of_generation;  // sorted
  bool strip_after_special = false;      // Phi-3: special tokens swallow the white space after them

  // Every token that is matched in raw text.
  std::vector<SpecialToken> special_tokens() const;
};

// model_invalid, naming the key.
Result<VocabularyMetadata> read_vocabulary(const model::Gguf& file, const VocabularyDefaults& defaults);

// An array of strings that must be there. model_invalid, naming the key.
Result<const model::GgufArray*> require_strings(const model::Gguf& file, std::string_view key);

std::unexpected<Error> vocabulary_error(std::string_view key, const std::string& what);

}  // namespace flyball::text
