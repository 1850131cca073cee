// Byte-level BPE (`tokenizer.ggml.model` = "gpt2"): text is split by the model's pre-tokenizer, and inside
// each word the pair of neighbours with the lowest merge rank is joined until none is left (Sennrich et al.
// 2016, over bytes as in GPT-2). O(n log n) in a word's length.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/text/merge_table.hpp"
#include "backends/text/pre_tokenizer.hpp"
#include "backends/text/tokenizer.hpp"
#include "backends/text/tokenizer_metadata.hpp"

namespace flyball::text {

class BpeTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const model::Gguf& file);

  std::optional<std::vector<Token>> encode_within(std::string_view text, EncodeOptions options,
                                                  std::size_t most) const override;
  std::unique_ptr<FirstToken> first_token() const override;
  bool strips_leading_space() const noexcept override { return false; }
  std::string_view piece(Token token) const noexcept override {
    return pieces_[static_cast<std::uint32_t>(token)];
  }

 protected:
  std::string_view normal_bytes(Token token) const noexcept override {
    return symbols_[static_cast<std::uint32_t>(token)];
  }

 private:
  struct Scratch;
  class First;
  BpeTokenizer(VocabularyMetadata vocabulary, PreTokenizer pre_tokenizer);
  Result<void> add_merges(const model::GgufArray& merges);
  bool add_symbols();
  void find_bound();

  std::optional<Token> first_token_of(std::string_view text, bool whole, Scratch& scratch) const;
  // The tokens of the text's first word, if nothing that follows changes them; else none.
  std::vector<Token> first_word(std::string_view text, bool whole, Scratch& scratch) const;
  // False: these and what is in `out` already are more than `most` tokens.
  bool encode_text(std::string_view text, std::vector<Token>& out, Scratch& scratch, std::size_t most) const;
  bool encode_word(std::string_view word, std::vector<Token>& out, Scratch& scratch, std::size_t most) const;
  void merge_short(std::string_view word, std::vector<Token>& out) const;
  void merge_long(std::string_view word, std::vector<Token>& out, Scratch& scratch) const;
  void emit(std::uint32_t symbol, std::vector<Token>& out) const;
  bool is_lone_token(char byte) const noexcept;  // what emit() gives for a byte of a symbol that is no token

  PreTokenizer pre_tokenizer_;
  StringTable pieces_;   // as the file spells them, not indexed
  StringTable symbols_;  // as bytes: the tokens by their ids, then what only merges name
  std::array<std::uint32_t, 256> byte_symbols_{};
  MergeTable merges_;
  SpecialMatcher specials_;
  bool add_bos_ = false, add_eos_ = false;
};

}  // namespace flyball::text
