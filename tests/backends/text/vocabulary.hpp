// Small vocabularies for tests, as the bytes of GGUF files.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/gguf_writer.hpp"
#include "backends/text/tokenizer.hpp"

namespace flyball::text::testing {

// "Ġ" for a space and so on: a byte as byte-level vocabularies spell it.
std::string byte_level(std::string_view bytes);

struct VocabularyFile {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;        // written for model "llama"
  std::vector<std::string> merges;  // written for model "gpt2"

  // The id of the token added.
  Token add(std::string_view token, TokenKind kind = TokenKind::normal, float score = 0);
  model::GgufWriter writer() const;
};

VocabularyFile byte_level_vocabulary();  // token i is byte i
// <unk> <s> </s>, then the 256 byte tokens: byte b is token 3 + b.
VocabularyFile sentencepiece_vocabulary();

// The file's bytes; Gguf views them only during load.
Result<std::unique_ptr<Tokenizer>> load(const model::GgufWriter& writer);
std::unique_ptr<Tokenizer> must_load(const VocabularyFile& file);

using Tokens = std::vector<Token>;
Tokens encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = true,
              bool add_special = false);
std::string decode(const Tokenizer& tokenizer, const Tokens& tokens);

// Well-formed UTF-8 of up to `most` characters from all planes, with the characters that patterns care about
// often.
std::string random_utf8(std::mt19937_64& random, std::size_t most);

}  // namespace flyball::text::testing
