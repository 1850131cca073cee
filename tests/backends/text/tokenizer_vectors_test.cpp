// Real vocabularies against recorded tokens: the vectors that ship beside them, and bytes that are no UTF-8.
// FLYBALL_VOCAB_DIR: where they are (default ../shared/data/vocab beside the source tree). SKIPPED without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/model/mapped_file.hpp"
#include "tests/backends/text/vocabulary.hpp"

namespace flyball::text::testing {
namespace {

std::filesystem::path vocabulary_file(const std::string& name) {
  const char* set = std::getenv("FLYBALL_VOCAB_DIR");
  const std::filesystem::path directory =
      set != nullptr ? std::filesystem::path(set)
                     : std::filesystem::path(FLYBALL_SOURCE_DIR) / "../shared/data/vocab";
  return directory / ("ggml-vocab-" + name + ".gguf");
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Vectors : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = vocabulary_file(GetParam());
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " is absent";
    auto file = model::MappedFile::open(path_);
    ASSERT_TRUE(file) << file.error().message;
    auto gguf = model::Gguf::parse(file->bytes());
    ASSERT_TRUE(gguf) << gguf.error().message;
    auto tokenizer = Tokenizer::load(*gguf);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = *std::move(tokenizer);
  }
  std::filesystem::path path_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(Vectors, ShippedWithTheVocabularyMatch) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string texts = read(path_.string() + ".inp");
  std::istringstream answers(read(path_.string() + ".out"));
  std::size_t count = 0;
  for (std::size_t at = 0; at < texts.size(); ++count) {
    const std::size_t end = std::min(texts.find(kSeparator, at), texts.size());
    const std::string text = texts.substr(at, end - at);
    at = end + kSeparator.size();
    std::string line;
    ASSERT_TRUE(std::getline(answers, line));
    std::istringstream numbers(line);
    const Tokens expected{std::istream_iterator<Token>(numbers), std::istream_iterator<Token>()};
    EXPECT_EQ(encode(*tokenizer_, text, false), expected) << text;
  }
  EXPECT_GE(count, 40U);
}

TEST_P(Vectors, InvalidUtf8MatchesLlamaCpp) {
  const auto recorded =
      nlohmann::json::parse(read(std::filesystem::path(FLYBALL_SOURCE_DIR) / "tests/backends/text/invalid_utf8.json"));
  const auto& texts = recorded.at("texts");
  const auto& answers = recorded.at(GetParam());
  ASSERT_EQ(texts.size(), answers.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto hex = texts[i].get<std::string>();
    std::string text;
    for (std::size_t at = 0; at < hex.size(); at += 2)
      text += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
    EXPECT_EQ(encode(*tokenizer_, text), answers[i].get<Tokens>()) << hex;
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Vectors, ::testing::Values("gpt-2", "llama-bpe", "llama-spm", "qwen2"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace flyball::text::testing
