// SentencePiece-style tokenizing.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/backends/text/vocabulary.hpp"
#include "tests/harness/cpu_time.hpp"

namespace flyball::text::testing {
namespace {

constexpr Token kBos = 1, kFirstByte = 3;

Token byte(unsigned char value) {
  return kFirstByte + value;
}

TEST(Spm, HighestScoreMergesFirstAndTheLeftmostOfEquals) {
  VocabularyFile file = sentencepiece_vocabulary();
  const Token mark = file.add("▁", TokenKind::normal, -10);
  const Token a = file.add("a", TokenKind::normal, -10);
  const Token b = file.add("b", TokenKind::normal, -10);
  const Token ab = file.add("ab", TokenKind::normal, -2);
  const Token ba = file.add("ba", TokenKind::normal, -1);
  const Token aa = file.add("aa", TokenKind::normal, -3);
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "ab"), (Tokens{mark, ab}));
  EXPECT_EQ(encode(*tokenizer, "aba"), (Tokens{mark, a, ba}));
  EXPECT_EQ(encode(*tokenizer, "aaa b"), (Tokens{mark, aa, a, mark, b}));
}

TEST(Spm, SpacePrefixBeforeTextThatFollowsNothingOrASpecialToken) {
  VocabularyFile file = sentencepiece_vocabulary();
  const Token mark = file.add("▁", TokenKind::normal, -10);
  const Token a = file.add("a", TokenKind::normal, -10);
  const Token user = file.add("[X]", TokenKind::user_defined);
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "a<s>a[X]a", true, true),
            (Tokens{kBos, mark, a, kBos, mark, a, user, mark, a}));
  EXPECT_EQ(encode(*tokenizer, " a"), (Tokens{mark, mark, a}));
  EXPECT_EQ(encode(*tokenizer, "", true, true), (Tokens{kBos}));
  EXPECT_EQ(encode(*tokenizer, "<s>"), (Tokens{kBos}));
  EXPECT_EQ(tokenizer->encode("a<s>a", {.add_special = false, .begins_text = false}),
            (Tokens{a, kBos, mark, a}));
  EXPECT_TRUE(tokenizer->strips_leading_space());

  auto writer = file.writer();
  writer.set_bool("tokenizer.ggml.add_space_prefix", false);
  const auto plain = load(writer);
  ASSERT_TRUE(plain);
  EXPECT_EQ(encode(**plain, "a<s>a"), (Tokens{a, kBos, a}));
  EXPECT_FALSE((*plain)->strips_leading_space());
}

TEST(Spm, WhatIsNoTokenFallsBackToItsBytes) {
  VocabularyFile file = sentencepiece_vocabulary();
  const Token mark = file.add("▁", TokenKind::normal, -10);
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "é"), (Tokens{mark, byte(0xC3), byte(0xA9)}));
  EXPECT_EQ(encode(*tokenizer, "\xFF\xE4"), (Tokens{mark, byte(0xFF), byte(0xE4)}));
  EXPECT_EQ(encode(*tokenizer, std::string_view("\0", 1)), (Tokens{mark, byte(0)}));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "日 x\n")), " 日 x\n");
}

TEST(Spm, WithoutByteTokensBytesAreTokensOrUnknown) {
  VocabularyFile file;
  file.model = "llama";
  file.pre = "";
  const Token unknown = file.add("<unk>", TokenKind::unknown);
  file.add("<s>", TokenKind::control);
  file.add("</s>", TokenKind::control);
  const Token mark = file.add("▁");
  const Token x = file.add("x");
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "xé"), (Tokens{mark, x, unknown, unknown}));
}

TEST(Spm, BytesOfTokens) {
  VocabularyFile file = sentencepiece_vocabulary();
  const Token word = file.add("▁the▁end");
  const Token user = file.add("▁▁", TokenKind::user_defined);
  const Token unused = file.add("gone", TokenKind::unused);
  const auto tokenizer = must_load(file);
  EXPECT_EQ(tokenizer->bytes(word), " the end");
  EXPECT_EQ(tokenizer->piece(word), "▁the▁end");
  EXPECT_EQ(tokenizer->bytes(byte(0x0A)), "\n");
  EXPECT_EQ(tokenizer->bytes(user), "▁▁");  // as the file spells it
  EXPECT_EQ(tokenizer->bytes(unused), "");
  EXPECT_EQ(tokenizer->bytes(kBos), "");
  EXPECT_EQ(tokenizer->bytes(kBos, true), "<s>");
}

TEST(Spm, AMegabyteOfOneLetterIsNotQuadratic) {
  VocabularyFile file = sentencepiece_vocabulary();
  std::string piece = "a";
  file.add("▁", TokenKind::normal, -100);
  file.add(piece, TokenKind::normal, -100);
  for (int doubling = 1; doubling <= 8; ++doubling) {
    piece += piece;
    file.add(piece, TokenKind::normal, static_cast<float>(-doubling));
  }
  const auto tokenizer = must_load(file);
  const std::string text(std::size_t{1} << 20U, 'a');
  const auto start = test::cpu_time();
  const Tokens tokens = encode(*tokenizer, text);
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(60));
  EXPECT_EQ(tokens.size(), 1 + text.size() / 256);
  EXPECT_EQ(decode(*tokenizer, tokens), " " + text);
}

}  // namespace
}  // namespace flyball::text::testing
