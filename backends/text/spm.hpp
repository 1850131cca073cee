// SentencePiece-style tokenizer (`tokenizer.ggml.model` = "llama"): spaces become U+2581, then the pair of
// neighbours that makes the highest-scored token is joined until none is left; characters that are no tokens
// fall back to their bytes (Kudo and Richardson 2018, its BPE mode). Where the file has merges
// (mlx_keys.hpp), their ranks decide instead of scores. O(n log n) in the length of a text.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "backends/text/merge_table.hpp"
#include "backends/text/tokenizer.hpp"
#include "backends/text/tokenizer_metadata.hpp"

namespace flyball::text {

class SpmTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const model::Gguf& file);

  std::vector<Token> encode(std::string_view text, EncodeOptions options) const override;
  bool strips_leading_space() const noexcept override { return add_space_prefix_; }
  std::string_view piece(Token token) const noexcept override {
    return pieces_[static_cast<std::uint32_t>(token)];
  }

 protected:
  std::string_view normal_bytes(Token token) const noexcept override {
    return rendered_[static_cast<std::uint32_t>(token)];
  }

 private:
  struct Scratch;
  SpmTokenizer(VocabularyMetadata vocabulary, std::vector<float> scores, bool add_space_prefix);
  Result<void> add_merges(const model::GgufArray& merges);
  void encode_text(std::string_view text, bool prefix, std::vector<Token>& out, Scratch& scratch) const;
  void merge(std::vector<Token>& out, Scratch& scratch) const;

  StringTable pieces_;    // by token, indexed
  StringTable rendered_;  // normal tokens with their spaces, not indexed; others empty
  std::vector<float> scores_;
  std::optional<MergeTable> merges_;  // of tokens, instead of scores_
  std::array<Token, 256> byte_tokens_{};
  SpecialMatcher specials_;
  std::size_t longest_ = 0;  // bytes of the longest token
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = true, prefix_once_ = false,
       prefix_if_none_ = false;
};

}  // namespace flyball::text
