// Vocabularies that must be refused, each naming its key, and what is derived from those that load.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "backends/text/tokenizer_metadata.hpp"
#include "tests/backends/text/vocabulary.hpp"

namespace flyball::text::testing {
namespace {

void expect_refused(const model::GgufWriter& writer, std::string_view key, std::string_view part,
                    ErrorCode code = ErrorCode::model_invalid) {
  const auto tokenizer = load(writer);
  ASSERT_FALSE(tokenizer) << key << ' ' << part;
  EXPECT_EQ(tokenizer.error().code, code);
  EXPECT_NE(tokenizer.error().message.find(key), std::string::npos) << tokenizer.error().message;
  EXPECT_NE(tokenizer.error().message.find(part), std::string::npos) << tokenizer.error().message;
}

TEST(TokenizerLoad, ModelsAndPreTokenizersItDoesNotKnow) {
  VocabularyFile file = byte_level_vocabulary();
  file.model = "bert";
  expect_refused(file.writer(), "tokenizer.ggml.model", "bert", ErrorCode::unsupported_value);
  file.model = "gpt2";
  file.pre = "klingon";
  expect_refused(file.writer(), "tokenizer.ggml.pre", "klingon", ErrorCode::unsupported_value);
  expect_refused(model::GgufWriter(), "tokenizer.ggml.model", "missing");
  model::GgufWriter number;
  number.set_u32("tokenizer.ggml.model", 1);
  expect_refused(number, "tokenizer.ggml.model", "");
}

TEST(TokenizerLoad, Tokens) {
  model::GgufWriter none;
  none.set_string("tokenizer.ggml.model", "gpt2");
  expect_refused(none, "tokenizer.ggml.tokens", "missing");
  VocabularyFile empty;
  expect_refused(empty.writer(), "tokenizer.ggml.tokens", "empty");
  VocabularyFile twice = byte_level_vocabulary();
  twice.add("a");
  expect_refused(twice.writer(), "tokenizer.ggml.tokens", "tokens 97 and 256");
  VocabularyFile large = byte_level_vocabulary();
  large.add(std::string(kMaxTokenBytes + 1, 'x'));
  expect_refused(large.writer(), "tokenizer.ggml.tokens", "16385 bytes");
  model::GgufWriter numbers;
  numbers.set_string("tokenizer.ggml.model", "llama");
  numbers.set_i32s("tokenizer.ggml.tokens", std::vector<std::int32_t>{1, 2});
  expect_refused(numbers, "tokenizer.ggml.tokens", "strings");
}

// The spellings of three families, and ids that a file gives tokens of any spelling.
TEST(TokenizerLoad, InfillTokensByTextOrById) {
  const char* const spelled[][3] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                                    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                    {"<PRE>", "<SUF>", "<MID>"},
                                    {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                                    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
                                    {"<|prefix|>", "<|suffix|>", "<|middle|>"}};
  for (const auto& [prefix, suffix, middle] : spelled) {
    VocabularyFile file = byte_level_vocabulary();
    const InfillTokens infill{file.add(prefix), file.add(suffix), file.add(middle)};
    const auto tokenizer = must_load(file);
    EXPECT_EQ(tokenizer->infill(), infill) << prefix;
    EXPECT_EQ(tokenizer->kind(infill.middle), TokenKind::control) << middle;
  }
  for (const auto& [prefix, suffix, middle] :
       {std::array{"fim_pre", "fim_suf", "fim_mid"}, std::array{"prefix", "suffix", "middle"}}) {
    auto writer = byte_level_vocabulary().writer();
    const auto set = [&](const std::string& name, std::uint32_t id) {
      writer.set_u32("tokenizer.ggml." + name + "_token_id", id);
    };
    set(prefix, 7);
    set(suffix, 9);
    set(middle, 8);
    EXPECT_EQ((*load(writer))->infill(), (InfillTokens{7, 9, 8})) << prefix;
  }
}

TEST(TokenizerLoad, InfillTakesThreeTokensOfTheVocabulary) {
  VocabularyFile file = byte_level_vocabulary();
  file.add("<|fim_prefix|>");
  file.add("<|fim_suffix|>");
  EXPECT_FALSE(must_load(file)->infill()) << "no middle token";
  auto writer = file.writer();
  writer.set_u32("tokenizer.ggml.fim_mid_token_id", 257);
  EXPECT_FALSE((*load(writer))->infill()) << "the suffix token is the middle token, too";
  auto outside = file.writer();
  outside.set_u32("tokenizer.ggml.fim_mid_token_id", 258);
  expect_refused(outside, "tokenizer.ggml.fim_mid_token_id", "is token 258, but the vocabulary holds 258");
}

// Text that spells one is bytes where no marker is allowed: no part of a document becomes one.
TEST(TokenizerLoad, InfillTokensThatTheFileCallsUserDefinedAreMarkers) {
  VocabularyFile file = byte_level_vocabulary();
  std::vector<Token> ids;
  for (const char* const text : {"<pre>", "<suf>", "<mid>"})
    ids.push_back(file.add(text, TokenKind::user_defined));
  auto writer = file.writer();
  writer.set_u32("tokenizer.ggml.fim_pre_token_id", static_cast<std::uint32_t>(ids[0]));
  writer.set_u32("tokenizer.ggml.fim_suf_token_id", static_cast<std::uint32_t>(ids[1]));
  writer.set_u32("tokenizer.ggml.fim_mid_token_id", static_cast<std::uint32_t>(ids[2]));
  const auto tokenizer = *load(writer);
  EXPECT_EQ(tokenizer->encode("<pre>", {}), (Tokens{ids[0]})) << "in a raw prompt";
  const std::vector<TextSpan> nowhere;
  EXPECT_EQ(tokenizer->encode("<pre>", {.control_in = &nowhere}), (Tokens{'<', 'p', 'r', 'e', '>'}));
}

TEST(TokenizerLoad, EmptyTokensGetAName) {
  VocabularyFile file = byte_level_vocabulary();
  const Token empty = file.add("");
  EXPECT_EQ(must_load(file)->piece(empty), "[EMPTY_256]");
}

TEST(TokenizerLoad, Types) {
  VocabularyFile file = byte_level_vocabulary();
  file.types.pop_back();
  expect_refused(file.writer(), "tokenizer.ggml.token_type", "255 entries for 256 tokens");
  file.types.push_back(7);
  expect_refused(file.writer(), "tokenizer.ggml.token_type", "type 7 at token 255");
  file.types.back() = -1;
  expect_refused(file.writer(), "tokenizer.ggml.token_type", "type -1");
  file.types.back() = 0;
  EXPECT_EQ(must_load(file)->bytes(255), "");  // undefined
  VocabularyFile special;
  for (int i = 0; i < 300; ++i) special.add(std::string(16'000, 'x') + std::to_string(i), TokenKind::control);
  expect_refused(special.writer(), "tokenizer.ggml.token_type", "limit");
}

TEST(TokenizerLoad, Scores) {
  VocabularyFile file = sentencepiece_vocabulary();
  file.scores.pop_back();
  expect_refused(file.writer(), "tokenizer.ggml.scores", "258 entries for 259 tokens");
  file.scores.push_back(std::numeric_limits<float>::quiet_NaN());
  expect_refused(file.writer(), "tokenizer.ggml.scores", "not a number at token 258");
}

TEST(TokenizerLoad, Merges) {
  VocabularyFile file = byte_level_vocabulary();
  for (const char* merge : {"", " ", "a", "a ", " a", "ab"}) {
    file.merges = {"a b", merge};
    expect_refused(file.writer(), "tokenizer.ggml.merges", "entry 1");
  }
  file.merges = {"a b", "\u4E2D a", "b \u4E2D"};  // outside the byte-level alphabet: never met in text
  EXPECT_TRUE(load(file.writer()));
  model::GgufWriter missing;
  missing.set_string("tokenizer.ggml.model", "gpt2");
  missing.set_strings("tokenizer.ggml.tokens", file.tokens);
  expect_refused(missing, "tokenizer.ggml.merges", "missing");
}

TEST(TokenizerLoad, Ids) {
  const VocabularyFile file = byte_level_vocabulary();
  for (const std::string name : {"bos", "eos", "unknown", "eot", "eom", "fim_pad", "fim_pre"}) {
    auto writer = file.writer();
    writer.set_u32("tokenizer.ggml." + name + "_token_id", 256);
    expect_refused(writer, "tokenizer.ggml." + name + "_token_id", "token 256, but the vocabulary holds 256");
  }
  auto ends = file.writer();
  ends.set_i32s("flyball.tokenizer.end_token_ids", std::vector<std::int32_t>{0, 256});
  expect_refused(ends, "flyball.tokenizer.end_token_ids", "token 256, but the vocabulary holds 256");
  auto bos = file.writer();
  bos.set_bool("tokenizer.ggml.add_bos_token", true);
  expect_refused(bos, "tokenizer.ggml.add_bos_token", "no such token");
}

TEST(TokenizerLoad, EndOfGenerationByIdAndByText) {
  VocabularyFile file = byte_level_vocabulary();
  const Token im_end = file.add("<|im_end|>");  // typed normal by mistake
  const Token eot = file.add("<|eot_id|>", TokenKind::control);
  const Token repo = file.add("<|repo_name|>", TokenKind::control);
  const Token prefix = file.add("<|fim_prefix|>", TokenKind::user_defined);
  const Token end = file.add("<|end|>", TokenKind::control);
  const Token eos = file.add("stop");
  auto writer = file.writer();
  writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(eos));
  const auto tokenizer = load(writer);
  ASSERT_TRUE(tokenizer);
  for (const Token token : {im_end, eot, repo, end, eos})
    EXPECT_TRUE((*tokenizer)->is_end_of_generation(token));
  for (const Token token : {Token{'a'}, Token{11}, prefix})
    EXPECT_FALSE((*tokenizer)->is_end_of_generation(token));
  EXPECT_EQ((*tokenizer)->kind(im_end), TokenKind::control);
  EXPECT_EQ((*tokenizer)->kind(prefix), TokenKind::control);
}

TEST(TokenizerLoad, GptOssEndsAMessageWithEndAndShowsItsChannels) {
  VocabularyFile file = byte_level_vocabulary();
  const Token end = file.add("<|end|>", TokenKind::control);
  const Token channel = file.add("<|channel|>", TokenKind::control);
  const Token result = file.add("<|return|>", TokenKind::control);
  const Token call = file.add("<|call|>", TokenKind::control);
  const auto tokenizer = must_load(file);
  EXPECT_FALSE(tokenizer->is_end_of_generation(end));
  EXPECT_TRUE(tokenizer->is_end_of_generation(result));
  EXPECT_TRUE(tokenizer->is_end_of_generation(call));
  EXPECT_EQ(tokenizer->bytes(channel), "<|channel|>");
  EXPECT_EQ(tokenizer->bytes(end), "<|end|>");
}

TEST(TokenizerLoad, SentencePieceDefaults) {
  const auto tokenizer = must_load(sentencepiece_vocabulary());
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->is_end_of_generation(2));
  VocabularyFile tiny;
  tiny.model = "llama";
  tiny.add("x");
  EXPECT_EQ(must_load(tiny)->bos(), std::nullopt);
  EXPECT_EQ(encode(*must_load(tiny), "x", true, true).size(), 4U);  // no BOS; three bytes of U+2581, then x
}

}  // namespace
}  // namespace flyball::text::testing
