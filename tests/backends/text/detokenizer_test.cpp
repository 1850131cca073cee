// Streaming text out of tokens.
#include "backends/text/detokenizer.hpp"

#include <gtest/gtest.h>

#include "backends/text/unicode.hpp"
#include "tests/backends/text/vocabulary.hpp"

namespace flyball::text::testing {
namespace {

std::vector<std::string> stream(const Tokenizer& tokenizer, std::string_view bytes) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> out;
  for (const char c : bytes) out.push_back(detokenizer.push(static_cast<unsigned char>(c)));
  out.push_back(detokenizer.finish());
  return out;
}

TEST(Detokenizer, HoldsACharacterBackUntilItIsWhole) {
  const auto tokenizer = must_load(byte_level_vocabulary());
  EXPECT_EQ(stream(*tokenizer, "aé"), (std::vector<std::string>{"a", "", "é", ""}));
  EXPECT_EQ(stream(*tokenizer, "🦙"), (std::vector<std::string>{"", "", "", "🦙", ""}));
}

TEST(Detokenizer, ReplacesWhatCannotBecomeACharacter) {
  const auto tokenizer = must_load(byte_level_vocabulary());
  const std::string r(kReplacement);
  EXPECT_EQ(stream(*tokenizer, "\xFFz"), (std::vector<std::string>{r, "z", ""}));
  EXPECT_EQ(stream(*tokenizer, "\xE4z"), (std::vector<std::string>{"", r + "z", ""}));
  EXPECT_EQ(stream(*tokenizer, "\xE4\xB8"), (std::vector<std::string>{"", "", r}));
  EXPECT_EQ(stream(*tokenizer, "\xED\xA0\x80"), (std::vector<std::string>{"", r + r, r, ""}));  // a surrogate
  EXPECT_EQ(stream(*tokenizer, "\xF0\x9F\xE4\xB8\xAD"), (std::vector<std::string>{"", "", r, "", "中", ""}));
}

TEST(Detokenizer, ControlTokensAreSilentAndLeaveACharacterInTheMaking) {
  VocabularyFile file = byte_level_vocabulary();
  const Token control = file.add("<|im_end|>", TokenKind::control);
  const auto tokenizer = must_load(file);
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.push(0xC3), "");
  EXPECT_EQ(detokenizer.push(control), "");
  EXPECT_EQ(detokenizer.push(0xA9), "é");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, SpellsControlTokensWhereItIsToldTo) {
  VocabularyFile file = sentencepiece_vocabulary();
  const Token word = file.add("▁word");
  const auto tokenizer = must_load(file);
  const std::string bos(tokenizer->piece(1));
  ASSERT_FALSE(bos.empty());
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.push(1), bos);
  EXPECT_EQ(detokenizer.push(word), "word") << "the text begins behind BOS";
  EXPECT_EQ(detokenizer.push(1), bos);
  EXPECT_EQ(detokenizer.push(word), " word");
}

TEST(Detokenizer, DropsTheSpacePrefixOnlyWhereTheTextBegins) {
  VocabularyFile file = sentencepiece_vocabulary();
  const Token word = file.add("▁word");
  const auto tokenizer = must_load(file);
  Detokenizer start(*tokenizer, true);
  EXPECT_EQ(start.push(1), "");  // BOS has no text: the text begins after it
  EXPECT_EQ(start.push(word), "word");
  EXPECT_EQ(start.push(word), " word");
  Detokenizer after_prompt(*tokenizer);
  EXPECT_EQ(after_prompt.push(word), " word");
  const auto bpe = must_load(byte_level_vocabulary());
  Detokenizer no_prefix(*bpe, true);
  EXPECT_EQ(no_prefix.push(' '), " ");
}

TEST(Detokenizer, AnyBytesGiveWellFormedTextAndValidTextComesOutWhole) {
  const auto tokenizer = must_load(byte_level_vocabulary());
  std::mt19937_64 random(13);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = random_utf8(random, 20);
    const bool broken = round % 2 == 1;
    if (broken && !bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
    std::string text;
    for (const std::string& part : stream(*tokenizer, bytes)) {
      for (std::size_t at = 0; at < part.size();) {
        const Utf8Step step = utf8_step(part, at);
        ASSERT_EQ(step.kind, Utf8Step::Kind::valid);
        at += step.length;
      }
      text += part;
    }
    if (!broken) {
      ASSERT_EQ(text, bytes);
    }
  }
}

}  // namespace
}  // namespace flyball::text::testing
