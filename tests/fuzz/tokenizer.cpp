// Any bytes as text for small vocabularies, as tokens to stream, and as a vocabulary file. The first byte
// chooses. Holds: tokens are in range, well-formed text comes back from its tokens, streamed text is
// well-formed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/text/detokenizer.hpp"
#include "backends/text/pre_tokenizer_patterns.hpp"
#include "backends/text/unicode.hpp"
#include "tests/backends/text/vocabulary.hpp"

namespace {

using namespace flyball;
using namespace flyball::text;

struct Vocabularies {
  std::vector<std::unique_ptr<Tokenizer>> bpe;
  std::unique_ptr<Tokenizer> spm;

  Vocabularies() {
    auto file = testing::byte_level_vocabulary();
    for (const char* merge : {"a a", "aa aa", "Ġ a", "Ġ Ġ", "Ċ Ċ", "1 2", "Ã ©", "ä ¸", "' s", "aa b"}) {
      file.merges.emplace_back(merge);
      std::string joined = merge;
      joined.erase(joined.find(' '), 1);
      file.add(joined);
    }
    file.add("<|im_end|>", TokenKind::control);
    file.add("<|im|>", TokenKind::control);
    file.add("aab>", TokenKind::user_defined);
    for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
      file.pre = rules.names.front();
      bpe.push_back(testing::must_load(file));
    }
    auto pieces = testing::sentencepiece_vocabulary();
    for (const char* piece : {"▁", "a", "b", "aa", "▁a", "ab", "▁▁", "é", "aab"}) {
      pieces.add(piece, TokenKind::normal, -static_cast<float>(pieces.tokens.size() / 2));
    }
    spm = testing::must_load(pieces);
  }
};

void require(bool holds) {
  if (!holds) std::abort();
}

bool well_formed(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (step.kind != Utf8Step::Kind::valid) return false;
    at += step.length;
  }
  return true;
}

std::string with_spaces(std::string_view text) {
  std::string out(text);
  for (std::size_t at; (at = out.find(kSpaceMark)) != std::string::npos;)
    out.replace(at, kSpaceMark.size(), " ");
  return out;
}

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  auto tokens = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
  for (const Token token : tokens)
    require(token >= 0 && static_cast<std::uint32_t>(token) < tokenizer.vocab_size());
  return tokens;
}

std::string decode(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  std::string out;
  for (const Token token : tokens) out += tokenizer.bytes(token, true);
  return out;
}

void stream(const Tokenizer& tokenizer, std::span<const std::uint8_t> tokens) {
  Detokenizer detokenizer(tokenizer, tokens.size() % 2 == 0);
  for (std::size_t i = 0; i + 1 < tokens.size(); i += 2) {
    const std::uint32_t id =
        (tokens[i] | static_cast<std::uint32_t>(tokens[i + 1]) << 8U) % tokenizer.vocab_size();
    require(well_formed(detokenizer.push(static_cast<Token>(id))));
  }
  require(well_formed(detokenizer.finish()));
}

void load(std::span<const std::uint8_t> bytes) {
  const auto gguf = model::Gguf::parse(std::as_bytes(bytes));
  if (!gguf) return;
  const auto tokenizer = Tokenizer::load(*gguf);
  if (!tokenizer) {
    require(!tokenizer.error().message.empty());
    return;
  }
  for (const std::string_view text :
       {"Hello, world 123", "<s>é\n\n 日本", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}) {
    for (const bool parse_special : {false, true}) {
      const auto tokens = encode(**tokenizer, text, parse_special);
      decode(**tokenizer, tokens);
    }
  }
  stream(**tokenizer, bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Vocabularies vocabularies;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), rest.size());
  const bool parse_special = data[0] % 2 == 1;
  const std::size_t choice = data[0] / 2U % (vocabularies.bpe.size() + 3);
  if (choice < vocabularies.bpe.size()) {
    const Tokenizer& tokenizer = *vocabularies.bpe[choice];
    const std::string decoded = decode(tokenizer, encode(tokenizer, text, parse_special));
    if (well_formed(text)) require(decoded == text);
  } else if (choice == vocabularies.bpe.size()) {
    const Tokenizer& tokenizer = *vocabularies.spm;
    const std::string decoded = decode(tokenizer, encode(tokenizer, text, false));
    if (well_formed(text)) require(decoded == (text.empty() ? "" : " ") + with_spaces(text));
    encode(tokenizer, text, true);
  } else if (choice == vocabularies.bpe.size() + 1) {
    stream(parse_special ? *vocabularies.spm : *vocabularies.bpe.front(), rest);
  } else {
    load(rest);
  }
  return 0;
}
