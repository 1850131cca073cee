// The tokens that a text begins with whatever follows it: the same as those of the text and what follows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backends/model/mapped_file.hpp"
#include "backends/text/pre_tokenizer_patterns.hpp"
#include "tests/backends/text/vocabulary.hpp"

namespace flyball::text::testing {
namespace {

// All tokens that are told one after another.
Tokens begun(const Tokenizer& tokenizer, std::string_view text, bool whole) {
  Tokens out;
  const auto first = tokenizer.first_token();
  while (!text.empty()) {
    const auto token = first->of(text, whole);
    if (!token) break;
    out.push_back(*token);
    text.remove_prefix(tokenizer.bytes(*token).size());
  }
  return out;
}

std::string any_text(std::mt19937_64& random) {
  constexpr std::string_view kParts[] = {
      "\"",   "\":",   "_name",  "long",  "Key",   "\": \"", "{\"", "},\n",  "  ",
      "\n  ", " ",     "status", "123",   "45",    "'s",     "'",   "ll",    "://",
      "a.b",  "<b>",   "<|",     "\t\t",  "\r\n",  "=>",     "é",   "的",    "\xCC\x81",
      "x/y",  "...",   "-",      "<to",   "ol",    ">",      "[",   "true,", "\xE4\xB8",
      "\xF0", "camel", "Case",   "SNAKE", "UTF-8", "/\n",    "`",   "$",     "日本"};
  if (random() % 4 == 0) return random_utf8(random, 12);
  std::string out;
  for (std::uint64_t n = 1 + random() % 10; n > 0; --n) out += kParts[random() % std::size(kParts)];
  return out;
}

// How many tokens were told.
std::size_t expect_unchanged(const Tokenizer& tokenizer, std::mt19937_64& random, int texts) {
  std::size_t told = 0;
  for (int i = 0; i < texts; ++i) {
    const std::string text = any_text(random);
    const Tokens open = begun(tokenizer, text, false), whole = begun(tokenizer, text, true);
    told += open.size();
    EXPECT_GE(whole.size(), open.size()) << text;
    for (int n = 0; n < 12; ++n) {
      const std::string more = n == 0 ? "" : any_text(random);
      const Tokens all = encode(tokenizer, text + more, /*parse_special=*/false);
      const Tokens& begins = n == 0 ? whole : open;
      EXPECT_LE(begins.size(), all.size());
      EXPECT_TRUE(std::ranges::equal(begins, std::span(all).first(std::min(begins.size(), all.size()))))
          << ::testing::PrintToString(text) << " before " << ::testing::PrintToString(more);
      if (::testing::Test::HasFailure()) return told;
    }
  }
  return told;
}

// Merges of neighbours in the texts above, of any rank, and tokens of user's own.
VocabularyFile random_vocabulary(std::string_view pre, std::mt19937_64& random) {
  VocabularyFile file = byte_level_vocabulary();
  file.pre = pre;
  std::vector<std::string> parts;
  for (int b = 0; b < 256; ++b) parts.push_back(file.tokens[static_cast<std::size_t>(b)]);
  for (int n = 0; n < 400; ++n) {
    const std::string text = byte_level(any_text(random));
    std::vector<std::string> letters;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = static_cast<unsigned char>(text[at]) < 0x80 ? 1 : 2;
      letters.push_back(text.substr(at, length));
      at += length;
    }
    if (letters.size() < 2) continue;
    const std::size_t from = random() % (letters.size() - 1);
    std::string left = letters[from], right = letters[from + 1];
    for (std::size_t i = from + 2; i < letters.size() && random() % 2 == 0; ++i) {
      if (random() % 2 == 0) {
        left += right;
        right = letters[i];
      } else {
        right += letters[i];
      }
    }
    if (std::ranges::find(file.tokens, left + right) == file.tokens.end()) {
      file.add(left + right);
      if (random() % 8 != 0) file.merges.push_back(left + " " + right);
    }
  }
  if (random() % 2 == 0) {
    for (const char* own : {"  ", "<tool>", "ke", "\r\n\r\n"}) file.add(own, TokenKind::user_defined);
  }
  return file;
}

TEST(FirstToken, OfEveryPreTokenizerIsUnchangedByWhatFollows) {
  std::mt19937_64 random(7);
  for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
    SCOPED_TRACE(rules.names.front());
    std::size_t told = 0;
    for (int n = 0; n < 6 && !HasFailure(); ++n)
      told += expect_unchanged(*must_load(random_vocabulary(rules.names.front(), random)), random, 150);
    EXPECT_GT(told, 900U);
  }
}

TEST(FirstToken, EndsWhereWhatFollowsDecides) {
  VocabularyFile file = byte_level_vocabulary();
  const auto bpe = must_load(file);
  EXPECT_EQ(decode(*bpe, begun(*bpe, "\"long_key\":", false)), "\"long_key") << "more may join the last word";
  EXPECT_EQ(decode(*bpe, begun(*bpe, "\"long_key\":", true)), "\"long_key\":");
  EXPECT_EQ(bpe->first_token()->of("", true), std::nullopt);
  EXPECT_EQ(bpe->first_token()->of("\x81x y", true), std::nullopt) << "amid a character";
  file.add("<tool>", TokenKind::user_defined);
  const auto own = must_load(file);
  EXPECT_EQ(decode(*own, begun(*own, "a b<to", false)), "a") << "a token of its own may begin behind b";
  EXPECT_EQ(decode(*own, begun(*own, "a b<to", true)), "a b<to");
}

TEST(FirstToken, OfSentencePieceIsNotTold) {
  const auto spm = must_load(sentencepiece_vocabulary());
  EXPECT_EQ(spm->first_token(), nullptr);
}

class FirstTokenOf : public ::testing::TestWithParam<const char*> {};

TEST_P(FirstTokenOf, ARealVocabularyIsUnchangedByWhatFollows) {
  const char* set = std::getenv("FLYBALL_VOCAB_DIR");
  const std::filesystem::path directory =
      set != nullptr ? std::filesystem::path(set)
                     : std::filesystem::path(FLYBALL_SOURCE_DIR) / "../shared/data/vocab";
  const auto path = directory / ("ggml-vocab-" + std::string(GetParam()) + ".gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto file = model::MappedFile::open(path).value();
  const auto tokenizer = Tokenizer::load(model::Gguf::parse(file.bytes()).value()).value();
  std::mt19937_64 random(11);
  EXPECT_GT(expect_unchanged(*tokenizer, random, 3'000), 3'000U);
}

INSTANTIATE_TEST_SUITE_P(Gguf, FirstTokenOf, ::testing::Values("gpt-2", "llama-bpe", "qwen2"),
                         [](const auto& i) {
                           std::string name = i.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace flyball::text::testing
