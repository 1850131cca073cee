// How few tokens a text can be, and encoding that ends where they are too many.
#include "backends/text/token_bound.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "tests/backends/text/vocabulary.hpp"
#include "tests/harness/cpu_time.hpp"

namespace flyball::text::testing {
namespace {

TEST(TokenBound, ByteCountsAsPartOfItsLongestToken) {
  TokenBound bound;
  EXPECT_EQ(bound.least("abcd"), 4U);
  EXPECT_EQ(bound.most_bytes(), 1U);
  bound.covers("abcd");
  bound.covers("ab");
  EXPECT_EQ(bound.least("abcd"), 1U);
  EXPECT_EQ(bound.least("abcda"), 2U);
  EXPECT_EQ(bound.least("dddddddd"), 2U);
  EXPECT_EQ(bound.least("dx"), 2U);
  EXPECT_EQ(bound.least(""), 0U);
  EXPECT_EQ(bound.most_bytes(), 4U);
  EXPECT_EQ(bound.least_of(9), 3U);
}

TEST(TokenBound, SymbolOfSeveralTokensSharesItsBytesAmongThem) {
  TokenBound bound;
  bound.covers("abcdef", 2);
  EXPECT_EQ(bound.least("abcdef"), 2U);
}

TEST(TokenBound, LostBytesHaveNoBound) {
  TokenBound bound;
  bound.loses("\xF5");  // in no UTF-8
  EXPECT_EQ(bound.most_bytes(), 1U);
  bound.loses("a");
  EXPECT_EQ(bound.most_bytes(), std::nullopt);
  EXPECT_EQ(bound.least_of(1'000'000), 0U);
  EXPECT_EQ(bound.least("aaaab"), 1U);
}

// Pieces of one to eight of a few characters, so that texts of the same merge often.
std::string piece(std::mt19937_64& random, std::span<const std::string_view> characters, std::size_t most) {
  std::string out;
  for (std::size_t n = 1 + random() % most; n > 0; --n) out += characters[random() % characters.size()];
  return out;
}

VocabularyFile random_bpe(std::mt19937_64& random) {
  constexpr std::string_view kCharacters[] = {"a", "b", " ", "\n", "é", "中", "1"};
  VocabularyFile file = byte_level_vocabulary();
  file.pre = random() % 2 == 0 ? "llama-bpe" : "qwen2";
  std::set<std::string> known(file.tokens.begin(), file.tokens.end());
  std::vector<std::string> words;
  for (const std::string_view c : kCharacters) words.emplace_back(c);
  for (int i = 0; i < 40; ++i) {
    const std::string left = words[random() % words.size()], right = words[random() % words.size()];
    file.merges.push_back(byte_level(left) + " " + byte_level(right));
    words.push_back(left + right);
    // Now and then a merge makes what is no token.
    if (random() % 8 != 0 && known.insert(byte_level(left + right)).second)
      file.add(byte_level(left + right));
  }
  // The vocabulary lacks the tokens that merges of single bytes make of a character of several. Real
  // vocabularies have them.
  for (int i = 0; i < 4; ++i) {
    const std::string special = "<" + piece(random, kCharacters, 4) + ">";
    if (known.insert(special).second)
      file.add(special, i % 2 == 0 ? TokenKind::control : TokenKind::user_defined);
  }
  return file;
}

VocabularyFile random_spm(std::mt19937_64& random) {
  constexpr std::string_view kCharacters[] = {"a", "b", "▁", "é", "中", "–"};
  VocabularyFile file = sentencepiece_vocabulary();
  std::set<std::string> known(file.tokens.begin(), file.tokens.end());
  for (int i = 0; i < 60; ++i) {
    const std::string text = piece(random, kCharacters, i < 20 ? 2 : 5);
    if (known.insert(text).second) file.add(text, TokenKind::normal, static_cast<float>(random() % 10));
  }
  for (int i = 0; i < 4; ++i) {
    const std::string special = piece(random, kCharacters, 3) + "<x>";
    if (known.insert(special).second)
      file.add(special, i % 2 == 0 ? TokenKind::control : TokenKind::user_defined);
  }
  return file;
}

class Bounded : public ::testing::TestWithParam<int> {};

// The bound holds for every text, and encode_within gives all or nothing.
TEST_P(Bounded, HoldsForRandomVocabulariesAndTexts) {
  constexpr std::string_view kText[] = {"a",  "aa", "b", " ", "  ",  "\n",   "é",
                                        "中", "▁",  "–", "1", "<a>", "▁<x>", "zz"};
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  for (int vocabulary = 0; vocabulary < 30; ++vocabulary) {
    const auto tokenizer = must_load(vocabulary % 2 == 0 ? random_bpe(random) : random_spm(random));
    for (int i = 0; i < 60; ++i) {
      const std::string text = i % 4 == 0 ? random_utf8(random, 60) : piece(random, kText, 80);
      const bool parse_special = random() % 2 == 0;
      const Tokens tokens = encode(*tokenizer, text, parse_special);
      ASSERT_GE(tokens.size(), tokenizer->bound().least(text))
          << "seed " << GetParam() << " '" << text << "'";
      ASSERT_GE(tokens.size(), tokenizer->bound().least_of(text.size()));
      const std::size_t most = random() % (tokens.size() + 3);
      const auto within =
          tokenizer->encode_within(text, {.add_special = false, .parse_special = parse_special}, most);
      ASSERT_EQ(within.has_value(), tokens.size() <= most);
      if (within) {
        ASSERT_EQ(*within, tokens);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, Bounded, ::testing::Range(1, 9),
                         [](const auto& test) { return "seed_" + std::to_string(test.param); });

TEST(TokenBound, WhiteSpaceThatASpecialTokenSwallowsHasNoBound) {
  VocabularyFile file = byte_level_vocabulary();
  file.add("<|user|>", TokenKind::control);
  EXPECT_TRUE(must_load(file)->bound().most_bytes());
  auto writer = file.writer();
  writer.set_string("general.name", "Phi-3 Mini");
  const auto phi3 = load(writer).value();
  EXPECT_EQ(phi3->bound().most_bytes(), std::nullopt);
  const std::string text = "<|user|>" + std::string(1000, ' ') + "a";
  EXPECT_LE(phi3->bound().least(text), phi3->encode(text, {.add_special = false}).size());
}

// A word of megabytes is refused by its bytes: nothing of it is merged. Four of them took seconds.
TEST(TokenBound, LongWordThatCannotFitIsNotMerged) {
  VocabularyFile file = byte_level_vocabulary();
  std::string run = "a";
  for (int doubling = 0; doubling < 4; ++doubling) {
    file.merges.push_back(run + " " + run);
    run += run;
    file.add(run);
  }
  const auto tokenizer = must_load(file);
  const std::string text(std::size_t{4} << 20U, 'a');
  EXPECT_EQ(tokenizer->bound().least(text), text.size() / 16);
  const auto start = test::cpu_time();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(tokenizer->encode_within(text, {}, 1023));
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(5));
  EXPECT_EQ(tokenizer->encode_within(std::string(16 * 1023, 'a'), {}, 1023).value().size(), 1023U);
}

}  // namespace
}  // namespace flyball::text::testing
