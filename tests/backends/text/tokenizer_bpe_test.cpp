// Byte-level BPE: merging, words, special cases of vocabularies, and that decoding undoes encoding.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backends/text/pre_tokenizer_patterns.hpp"
#include "tests/backends/text/vocabulary.hpp"

namespace flyball::text::testing {
namespace {

// Adds the merge and, as real vocabularies do, its result as a token.
Token merge(VocabularyFile& file, std::string_view left, std::string_view right) {
  file.merges.push_back(byte_level(left) + " " + byte_level(right));
  return file.add(byte_level(std::string(left) + std::string(right)));
}

TEST(Bpe, LowestRankMergesFirstAndTheLeftmostOfEquals) {
  VocabularyFile file = byte_level_vocabulary();
  const Token bc = merge(file, "b", "c");
  const Token ab = merge(file, "a", "b");
  const Token aa = merge(file, "a", "a");
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "abc"), (Tokens{'a', bc}));
  EXPECT_EQ(encode(*tokenizer, "ab"), (Tokens{ab}));
  EXPECT_EQ(encode(*tokenizer, "aaaaa"), (Tokens{aa, aa, 'a'}));
  EXPECT_EQ(encode(*tokenizer, ""), Tokens{});
}

TEST(Bpe, WordsDoNotMergeAcrossThePreTokenizersBorders) {
  VocabularyFile file = byte_level_vocabulary();
  const Token o_space = merge(file, "o", " ");
  const Token space_w = merge(file, " ", "w");
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "o w"), (Tokens{'o', space_w}));
  EXPECT_EQ(tokenizer->bytes(o_space), "o ");
}

TEST(Bpe, WholeWordTokensIgnoreMergesOnlyWhereTheModelDoes) {
  VocabularyFile file = byte_level_vocabulary();
  const Token ab = merge(file, "a", "b");
  const Token word = file.add("abcd");  // no chain of merges leads here
  file.pre = "llama-bpe";
  EXPECT_EQ(encode(*must_load(file), "abcd"), (Tokens{word}));
  file.pre = "smaug-bpe";  // the same pattern
  EXPECT_EQ(encode(*must_load(file), "abcd"), (Tokens{ab, 'c', 'd'}));
}

TEST(Bpe, MergesMayPassThroughStringsThatAreNoTokens) {
  VocabularyFile file = byte_level_vocabulary();
  file.merges = {"a b", "ab c"};
  const Token abc = file.add("abc");
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "abc"), (Tokens{abc}));
  EXPECT_EQ(encode(*tokenizer, "abd"), (Tokens{'a', 'b', 'd'}));  // "ab" falls apart again
}

TEST(Bpe, BytesWithoutATokenAreLostAsInLlamaCpp) {
  VocabularyFile file;
  const Token a = file.add("a");
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "a\xC3\xA9z a"), (Tokens{a, a}));
}

// The textbook form: join the pair of lowest rank, leftmost first, until none is left.
Tokens naive_bpe(const VocabularyFile& file, std::string_view word) {
  std::map<std::string, std::size_t> rank;
  std::map<std::string, Token> id;
  for (std::size_t i = 0; i < file.merges.size(); ++i) rank.emplace(file.merges[i], i);
  for (std::size_t i = 0; i < file.tokens.size(); ++i) id[file.tokens[i]] = static_cast<Token>(i);
  std::vector<std::string> parts;
  for (const char c : word) parts.push_back(byte_level(std::string(1, c)));
  while (true) {
    std::size_t best = file.merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = rank.find(parts[i] + " " + parts[i + 1]);
      if (found != rank.end() && found->second < best) best = found->second, at = i;
    }
    if (best == file.merges.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Tokens out;
  for (const std::string& part : parts) out.push_back(id.at(part));
  return out;
}

TEST(Bpe, EqualsTheTextbookOnRandomMergesForShortAndLongWords) {
  const std::uint64_t seed = 7;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 30; ++round) {
    VocabularyFile file = byte_level_vocabulary();
    std::vector<std::string> parts = {"a", "b", "c"};
    for (int i = 0; i < 40; ++i) {
      const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
      if (left.size() + right.size() > 12) continue;
      file.merges.push_back(left + " " + right);
      if (std::ranges::find(parts, left + right) != parts.end()) continue;
      parts.push_back(left + right);
      file.add(left + right);
    }
    const auto tokenizer = must_load(file);
    for (const std::size_t length : {1U, 2U, 5U, 20U, 31U, 32U, 33U, 64U, 150U}) {
      std::string word;
      for (std::size_t i = 0; i < length; ++i) word += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(encode(*tokenizer, word), naive_bpe(file, word))
          << "seed " << seed << " round " << round << ' ' << word;
    }
  }
}

TEST(Bpe, DecodingUndoesEncodingForEveryPreTokenizer) {
  const std::uint64_t seed = 11;
  VocabularyFile file = byte_level_vocabulary();
  merge(file, " ", "a");
  merge(file, "\n", "\n");
  merge(file, "\xE4", "\xB8");
  for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
    std::mt19937_64 random(seed);
    file.pre = rules.names.front();
    const auto tokenizer = must_load(file);
    for (int i = 0; i < 400; ++i) {
      const std::string text = random_utf8(random, 40);
      ASSERT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text) << file.pre << " seed " << seed;
    }
  }
}

// What llama.cpp makes of bytes that are no UTF-8: U+FFFD for each byte that does not decode, overlong forms
// shortened, surrogates kept.
TEST(Bpe, InvalidUtf8BecomesReplacementCharacters) {
  const auto tokenizer = must_load(byte_level_vocabulary());
  const auto round_trip = [&](std::string_view text) { return decode(*tokenizer, encode(*tokenizer, text)); };
  const std::string fffd = "\xEF\xBF\xBD";
  EXPECT_EQ(round_trip("a\xFFz"), "a" + fffd + "z");
  EXPECT_EQ(round_trip("\xE4\xB8"), fffd + fffd);  // a character cut short
  EXPECT_EQ(round_trip("\xE4(\xB8"), fffd + "(" + fffd);
  EXPECT_EQ(round_trip("\x80\xBF"), fffd + fffd);         // continuation bytes alone
  EXPECT_EQ(round_trip("\xC1\x81"), "A");                 // overlong
  EXPECT_EQ(round_trip("\xE0\x80\x8A"), "\n");            // overlong
  EXPECT_EQ(round_trip("\xED\xA0\x80"), "\xED\xA0\x80");  // a surrogate
  EXPECT_EQ(round_trip("\xF4\x90\x80\x80"),
            fffd + fffd + fffd + fffd);  // above U+10FFFF, where llama.cpp throws
  EXPECT_EQ(round_trip(std::string_view("\0a\0", 3)), std::string_view("\0a\0", 3));
}

TEST(Bpe, BosAndEosFollowTheFileAndElseThePreTokenizer) {
  VocabularyFile file = byte_level_vocabulary();
  const Token bos = file.add("<bos>", TokenKind::control);
  const Token eos = file.add("<eos>", TokenKind::control);
  const auto with = [&](std::string_view pre, std::optional<bool> add_bos, std::optional<bool> add_eos) {
    file.pre = pre;
    auto writer = file.writer();
    writer.set_u32("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(bos));
    writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(eos));
    if (add_bos) writer.set_bool("tokenizer.ggml.add_bos_token", *add_bos);
    if (add_eos) writer.set_bool("tokenizer.ggml.add_eos_token", *add_eos);
    auto tokenizer = load(writer);
    EXPECT_TRUE(tokenizer);
    EXPECT_EQ((*tokenizer)->bos(), bos);
    EXPECT_EQ(encode(**tokenizer, "a", true, false), (Tokens{'a'}));
    return encode(**tokenizer, "a", true, true);
  };
  EXPECT_EQ(with("gpt-2", {}, {}), (Tokens{'a'}));
  EXPECT_EQ(with("llama-bpe", {}, {}), (Tokens{bos, 'a'}));
  EXPECT_EQ(with("llama-bpe", false, {}), (Tokens{'a'}));
  EXPECT_EQ(with("qwen2", true, true), (Tokens{bos, 'a', eos}));
}

TEST(Bpe, WithoutAPreTokenizerNamedTheDefaultSplits) {
  VocabularyFile file = byte_level_vocabulary();
  file.pre = "";
  const Token pair = merge(file, "1", "2");
  const Token across = merge(file, "3", "4");
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "1234"), (Tokens{pair, '3', '4'}));  // digits go in threes
  EXPECT_EQ(tokenizer->bytes(across), "34");
}

}  // namespace
}  // namespace flyball::text::testing
