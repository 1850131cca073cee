// Where each pre-tokenizer draws its borders, and that hostile text costs linear time.
#include "backends/text/pre_tokenizer.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "backends/text/pre_tokenizer_patterns.hpp"
#include "backends/text/unicode.hpp"
#include "tests/backends/text/vocabulary.hpp"
#include "tests/harness/cpu_time.hpp"

namespace flyball::text::testing {
namespace {

std::vector<std::uint32_t> ends(const PreTokenizer& pre_tokenizer, std::string_view text) {
  PreTokenizer::Scratch scratch;
  PreparedStorage storage;
  std::vector<std::uint32_t> out;
  pre_tokenizer.split(prepare_text(text, storage).subject, scratch, [&](std::uint32_t, std::uint32_t end) {
    out.push_back(end);
    return true;
  });
  return out;
}

std::string split(std::string_view name, std::string_view text) {
  auto pre_tokenizer = PreTokenizer::create(name);
  if (!pre_tokenizer) return pre_tokenizer.error().message;
  std::string out;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends(*pre_tokenizer, text)) {
    if (begin > 0) out += '|';
    out += text.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(split("gpt-2", "I'm here,  it's 2024!"), "I|'m| here|,| | it|'s| 2024|!");
  EXPECT_EQ(split("gpt-2", "a\n\n b  "), "a|\n\n| b|  ");
  EXPECT_EQ(split("gpt-2", "I'M"), "I|'|M");
  EXPECT_EQ(split("gpt-2", "e\u0301a"), "e|\u0301|a");
}

TEST(PreTokenizer, Llama3AndQwen2DifferInDigits) {
  EXPECT_EQ(split("llama-bpe", "I'LL pay 12345.6"), "I|'LL| pay| |123|45|.|6");
  EXPECT_EQ(split("qwen2", "I'LL pay 12345.6"), "I|'LL| pay| |1|2|3|4|5|.|6");
  EXPECT_EQ(split("llama-bpe", "x();\r\n\r\n  y"), "x|();\r\n\r\n| | y");
  EXPECT_EQ(split("llama-bpe", " \n \n  z"), " \n \n| | z");
  EXPECT_EQ(split("qwen2", "e\u0301a"), "e|\u0301a");
  EXPECT_EQ(split("qwen35", "e\u0301a"), "e\u0301a");
}

TEST(PreTokenizer, PatternsInTurn) {
  EXPECT_EQ(split("smollm", "in 2024"), "in| |2|0|2|4");
  EXPECT_EQ(split("default", "x1234=5 a"), "x|123|4|=|5| a");
  EXPECT_EQ(split("falcon", "`a` 12345"), "`|a|`| |123|45");
  EXPECT_EQ(split("deepseek-llm", "Hi there\n 12 你好, x  "), "Hi| there|\n| |12| |你好|,| x|  ");
  EXPECT_EQ(split("deepseek-coder", "f(x) 中1"), "f|(|x|)| |中|1");
  EXPECT_EQ(split("deepseek-v3", "Hi,there 12345 你好"), "Hi|,there| |123|45| |你好");
}

TEST(PreTokenizer, TekkenAndGpt4oSplitByCase) {
  EXPECT_EQ(split("tekken", "HTTPServer's iPhone 42/\n"), "HTTPServer|'s| i|Phone| |4|2|/\n");
  EXPECT_EQ(split("gpt-4o", "HTTPServer's iPhone 4242/\n"), "HTTPServer's| i|Phone| |424|2|/\n");
  EXPECT_EQ(split("tekken", "ABC"), "ABC");
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesAndNotPcre2s) {
  // U+180E was white space once; U+0085 and U+3000 are.
  EXPECT_EQ(split("gpt-2", "a\u180Eb"), "a|\u180E|b");
  EXPECT_EQ(split("gpt-2", "a\u0085\u3000b"), "a|\u0085|\u3000|b");
  // Regression: white space inside deepseek's CJK range is not CJK.
  EXPECT_EQ(split("deepseek-llm", "a \u3000\u2003 b"), "a| \u3000\u2003| b");
}

TEST(PreTokenizer, CharactersNewerThanPcre2sTablesHaveTheirCategory) {
  EXPECT_EQ(split("gpt-2", "\U00031350\U0002EBF0a"), "\U00031350\U0002EBF0a");  // ideographs of 15.0 and 15.1
  EXPECT_EQ(split("gpt-2", "a\U0001E4F0"), "a|\U0001E4F0");                     // a digit
  EXPECT_EQ(split("qwen35", "\u0C95\u0CF3"), "\u0C95\u0CF3");                   // a mark
}

TEST(PreTokenizer, UnknownNamesAreRefused) {
  const auto made = PreTokenizer::create("no-such-pattern");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported_value);
  EXPECT_NE(made.error().message.find("no-such-pattern"), std::string::npos);
}

TEST(PreTokenizer, InterpretedEqualsCompiled) {
  for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
    const auto compiled = PreTokenizer::create(rules.names.front());
    const auto interpreted = PreTokenizer::create(rules.names.front(), false);
    ASSERT_TRUE(compiled && interpreted);
    std::mt19937_64 random(3);
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_utf8(random, 60);
      ASSERT_EQ(ends(*compiled, text), ends(*interpreted, text)) << rules.names.front();
    }
  }
}

// A quarter megabyte of what makes naive matching or merging quadratic: linear takes tens of milliseconds,
// quadratic over half a minute.
TEST(PreTokenizer, HostileTextTakesLinearTime) {
  constexpr std::size_t kSize = 1 << 18;
  std::vector<std::string> texts = {std::string(kSize, 'a'),  std::string(kSize, 'A'),
                                    std::string(kSize, ' '),  std::string(kSize, '\''),
                                    std::string(kSize, '\n'), std::string(kSize, '7')};
  for (const std::string_view unit :
       {"中", "éA", "a\u0301", " \u3000", "\r\n ", "-/", "'s", "aA", "\u0301"}) {
    std::string text;
    while (text.size() < kSize) text += unit;
    texts.push_back(text);
  }
  for (const char tail : {'x', '\n', '1'}) texts.push_back(std::string(kSize, ' ') + tail);
  texts.push_back("é" + std::string(kSize, 'A'));
  VocabularyFile file = byte_level_vocabulary();
  for (const std::string_view unit : {"a", "A", "7", "\n", "\xE4"}) {
    std::string piece = byte_level(unit);
    for (int doubling = 0; doubling < 6; ++doubling) {
      file.merges.push_back(piece + " " + piece);
      file.add(piece += piece);
    }
  }
  for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
    file.pre = rules.names.front();
    const auto tokenizer = must_load(file);
    for (const std::string& text : texts) {
      const auto start = test::cpu_time();
      const Tokens tokens = encode(*tokenizer, text);
      EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(60))
          << file.pre << text.substr(0, 8);
      std::size_t bytes = 0;
      for (const Token token : tokens) bytes += tokenizer->bytes(token).size();
      ASSERT_EQ(bytes, text.size()) << file.pre;
    }
  }
}

}  // namespace
}  // namespace flyball::text::testing
