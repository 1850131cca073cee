// Small vocabularies.
#include "tests/backends/text/vocabulary.hpp"

#include <array>
#include <span>
#include <stdexcept>

#include "backends/text/unicode.hpp"

namespace flyball::text::testing {

std::string byte_level(std::string_view bytes) {
  static const std::array<std::string, 256> alphabet = [] {
    std::array<std::string, 256> out;
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      append_utf8(out[byte], printable ? byte : next++);
    }
    return out;
  }();
  std::string out;
  for (const char c : bytes) out += alphabet[static_cast<unsigned char>(c)];
  return out;
}

Token VocabularyFile::add(std::string_view token, TokenKind kind, float score) {
  tokens.emplace_back(token);
  types.push_back(static_cast<std::int32_t>(kind));
  scores.push_back(score);
  return static_cast<Token>(tokens.size() - 1);
}

model::GgufWriter VocabularyFile::writer() const {
  model::GgufWriter out;
  out.set_string("tokenizer.ggml.model", model);
  if (!pre.empty()) out.set_string("tokenizer.ggml.pre", pre);
  out.set_strings("tokenizer.ggml.tokens", tokens);
  out.set_i32s("tokenizer.ggml.token_type", types);
  if (model == "llama") out.set_f32s("tokenizer.ggml.scores", scores);
  if (model == "gpt2") out.set_strings("tokenizer.ggml.merges", merges);
  return out;
}

VocabularyFile byte_level_vocabulary() {
  VocabularyFile out;
  for (int byte = 0; byte < 256; ++byte) out.add(byte_level(std::string(1, static_cast<char>(byte))));
  return out;
}

VocabularyFile sentencepiece_vocabulary() {
  VocabularyFile out;
  out.model = "llama";
  out.pre = "";
  out.add("<unk>", TokenKind::unknown);
  out.add("<s>", TokenKind::control);
  out.add("</s>", TokenKind::control);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    out.add(std::string{'<', '0', 'x', kHex[byte >> 4U], kHex[byte & 15U], '>'}, TokenKind::byte);
  }
  return out;
}

Result<std::unique_ptr<Tokenizer>> load(const model::GgufWriter& writer) {
  const std::string bytes = writer.header();
  auto gguf = model::Gguf::parse(std::as_bytes(std::span(bytes)));
  if (!gguf) return std::unexpected(gguf.error());
  return Tokenizer::load(*gguf);
}

std::unique_ptr<Tokenizer> must_load(const VocabularyFile& file) {
  auto tokenizer = load(file.writer());
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

Tokens encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool add_special) {
  return tokenizer.encode(text, {.add_special = add_special, .parse_special = parse_special});
}

std::string decode(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::string out;
  for (const Token token : tokens) out += tokenizer.bytes(token);
  return out;
}

std::string random_utf8(std::mt19937_64& random, std::size_t most) {
  constexpr std::string_view kCommon[] = {" ",  " ",      " ",      "\n",     "\r\n", "\t", "'s",   "'LL",
                                          "a",  "Bc",     "Q",      "1",      "23",   "é",  "ж",    "中",
                                          "한", "\u3000", "\u00A0", "\u0301", "!",    "->", "🦙", "٣"};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::string out;
  for (std::uint64_t count = below(most + 1); count > 0; --count) {
    if (below(3) != 0) {
      out += kCommon[below(std::size(kCommon))];
      continue;
    }
    constexpr std::uint32_t kLimits[] = {0x80, 0x800, 0x10000, 0x33000, 0x110000};
    const auto value = static_cast<std::uint32_t>(below(kLimits[below(std::size(kLimits))]));
    append_utf8(out, value >= 0xD800 && value < 0xE000 ? 0xFFFD : value);
  }
  return out;
}

}  // namespace flyball::text::testing
