// SentencePiece-style tokenizer (`tokenizer.ggml.model` = "llama"): spaces become U+2581, then the pair of
// neighbours that makes the highest-scored token is joined until none is left; characters that are no tokens
// fall back to their bytes (Kudo and Richardson 2018, its BPE mode). Where the file has merges
// (mlx_keys.hpp), their ranks decide instead of scores. O(n log n) in the length of a text.
#pragma once

#include <array>
#include <bitset>
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

  std::optional<std::vector<Token>> encode_within(std::string_view text, EncodeOptions options,
                                                  std::size_t most) const override;
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
  void find_bound();
  void find_joints();
  // False: these and what is in `out` already are more than `most` tokens.
  bool encode_text(std::string_view text, bool prefix, std::vector<Token>& out, Scratch& scratch,
                   std::size_t most) const;
  // The end of the run that begins at `begin`: no token reaches beyond it.
  std::size_t run_end(std::string_view escaped, std::size_t begin) const;
  void merge(std::string_view run, std::vector<Token>& out, Scratch& scratch) const;
  // The token that text of several characters merges into.
  std::optional<Token> merged(std::string_view text) const;

  StringTable pieces_;    // by token, indexed
  StringTable rendered_;  // normal tokens with their spaces, not indexed; others empty
  std::vector<float> scores_;
  std::optional<MergeTable> merges_;  // of tokens, instead of scores_
  std::array<Token, 256> byte_tokens_{};
  SpecialMatcher specials_;
  std::size_t longest_ = 0;  // bytes of the longest token
  // Whether some token has a byte and what follows it, kSpaceMark or the next byte, side by side. Text falls
  // apart where none has, into runs that are tokenized each by itself.
  static constexpr std::size_t kMarkNext = 256, kNext = 257;
  static std::size_t joint(std::string_view text,
                           std::size_t at) noexcept;  // of text[at - 1] and what follows it
  std::bitset<256 * kNext> joints_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = true, prefix_once_ = false,
       prefix_if_none_ = false;
};

}  // namespace flyball::text
