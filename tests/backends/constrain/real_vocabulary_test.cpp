// Masks over real vocabularies. FLYBALL_VOCAB_DIR: where they are (default ../shared/data/vocab beside the
// source tree). SKIPPED without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/constrain/mask.hpp"
#include "backends/grammar/gbnf.hpp"
#include "backends/model/gguf.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/text/tokenizer.hpp"

namespace flyball::constrain {
namespace {

class RealVocabulary : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* set = std::getenv("FLYBALL_VOCAB_DIR");
    const std::filesystem::path directory =
        set != nullptr ? std::filesystem::path(set)
                       : std::filesystem::path(FLYBALL_SOURCE_DIR) / "../shared/data/vocab";
    const auto path = directory / ("ggml-vocab-" + std::string(GetParam()) + ".gguf");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
    auto file = model::MappedFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    auto gguf = model::Gguf::parse(file->bytes());
    ASSERT_TRUE(gguf) << gguf.error().message;
    auto tokenizer = text::Tokenizer::load(*gguf);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = *std::move(tokenizer);
    for (std::uint32_t token = 0; token < tokenizer_->vocab_size(); ++token) {
      bytes_.push_back(tokenizer_->bytes(static_cast<Token>(token)));
      is_end_.push_back(tokenizer_->is_end_of_generation(static_cast<Token>(token)));
      if (is_end_.back()) ends_.push_back(token);
    }
    vocabulary_ = std::make_shared<const Vocabulary>(bytes_, std::vector<TokenId>{}, ends_);
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::vector<std::string_view> bytes_;
  std::vector<bool> is_end_;
  std::vector<TokenId> ends_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

TEST_P(RealVocabulary, HasTheMasksThatTheMatcherSays) {
  grammar::Fuel fuel(grammar::Limits{}.steps);
  const auto grammar = grammar::read_gbnf(R"x(
root ::= "{" ws pair ("," ws pair)* "}"
pair ::= string ":" ws (string | short | [0-9]+ | code | root) ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" ["\\/bfnrt])* "\""
short ::= "<" [^<>]{0,12} ">"
code ::= "(" [a-z ]{3,} ")"
ws ::= [ \n]*
)x",
                                          fuel, grammar::Limits{});
  ASSERT_TRUE(grammar.has_value()) << describe(grammar.error());
  auto program = compile(*grammar, fuel, grammar::Limits{});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto automaton = std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)));
  Masks masks(automaton, vocabulary_);
  Matcher at = *Matcher::begin(automaton);
  std::vector<std::uint64_t> bits(vocabulary_->words());
  std::size_t allowed = 0;
  for (const char* step :
       {"", "{", "\"", "key", "\": ", "{\"a\":\"", "text \xE6\x9D\xB1", "\xE4", "\xBA\xAC\"",
        "}, \"b\":", "<", "short te", "xt", ">,\"c\":(", "ab", "c d", ")}"}) {
    ASSERT_TRUE(*at.accept(step)) << step;
    const auto count = masks.fill(at, bits);
    ASSERT_TRUE(count.has_value());
    std::size_t expected_count = 0;
    for (TokenId token = 0; token < bytes_.size(); ++token) {
      Matcher fork = at;
      const bool expected =
          is_end_[token] ? at.can_end() : !bytes_[token].empty() && *fork.accept(bytes_[token]);
      ASSERT_EQ((bits[token / 64] >> token % 64 & 1U) != 0, expected) << step << " then " << bytes_[token];
      expected_count += expected ? 1 : 0;
    }
    EXPECT_EQ(*count, expected_count);
    allowed += expected_count;
  }
  EXPECT_TRUE(at.can_end());
  EXPECT_GT(allowed, bytes_.size());
}

// A key may be any text, and some names lead to values of their own: most tokens need no look.
TEST_P(RealVocabulary, TakesTextBesideNamesAtOnce) {
  grammar::Fuel fuel(grammar::Limits{}.steps);
  std::string source =
      "root ::= \"\\\"\" (name \"\\\":1\" | [^\"\\\\\\x00-\\x1F]* \"\\\":2\")\nname ::= \"id\"";
  for (char first = 'a'; first <= 'z'; ++first) source += std::string(" | \"") + first + "name\"";
  const auto grammar = grammar::read_gbnf(source, fuel, grammar::Limits{});
  ASSERT_TRUE(grammar.has_value()) << describe(grammar.error());
  auto program = compile(*grammar, fuel, grammar::Limits{});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto automaton = std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)));
  Masks masks(automaton, vocabulary_);
  Matcher at = *Matcher::begin(automaton);
  std::vector<std::uint64_t> bits(vocabulary_->words());
  for (const char* step : {"\"", "n", "name"}) {
    ASSERT_TRUE(*at.accept(step)) << step;
    ASSERT_TRUE(masks.fill(at, bits).has_value());
    EXPECT_LT(masks.work(), bytes_.size() / 6) << "a walk of all tokens takes several times as much";
    for (TokenId token = 0; token < bytes_.size(); ++token) {
      Matcher fork = at;
      const bool expected = !is_end_[token] && !bytes_[token].empty() && *fork.accept(bytes_[token]);
      ASSERT_EQ((bits[token / 64] >> token % 64 & 1U) != 0, expected) << step << " then " << bytes_[token];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, RealVocabulary, ::testing::Values("gpt-2", "llama-bpe", "llama-spm", "qwen2"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace flyball::constrain
