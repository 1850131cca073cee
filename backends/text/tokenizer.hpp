// A model's tokenizer as its GGUF file carries it: byte-level BPE ("gpt2") with the model's pre-tokenizer
// pattern, or SentencePiece-style ("llama") with score merging and byte fallback. Immutable after load;
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "backends/model/gguf.hpp"
#include "backends/text/jinja/text_span.hpp"
#include "backends/text/token_bound.hpp"
#include "config/error.hpp"

namespace flyball::text {

enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// The control tokens around the parts of a document whose gap is to be filled; three different ones.
struct InfillTokens {
  Token prefix = 0, suffix = 0, middle = 0;
  bool operator==(const InfillTokens&) const = default;
};

class Tokenizer {
 public:
  // Copies what it needs out of the file. model_invalid; unsupported_value for a tokenizer model or
  // pre-tokenizer it does not know (named).
  static Result<std::unique_ptr<Tokenizer>> load(const model::Gguf& file);
  virtual ~Tokenizer() = default;

  struct EncodeOptions {
    bool add_special = true;    // BOS/EOS where the file says so
    bool parse_special = true;  // text such as <|im_start|> becomes its control token
    // The parts of the text, in order and apart, in which it does; null: everywhere. The template's markers
    // count as control tokens here, whatever their kind.
    const std::vector<TextSpan>* control_in = nullptr;
    // False: the text goes on behind another one, and no space is put before it.
    bool begins_text = true;
  };
  // Any bytes are accepted; invalid UTF-8 goes the model's own way (bytes or U+FFFD), as llama.cpp does. A
  // control token comes of its own spelling alone, where that is recognised: never of what merges.
  std::vector<Token> encode(std::string_view text, EncodeOptions options) const {
    return *encode_within(text, options, SIZE_MAX);
  }
  // nullopt: the text is more than `most` tokens; found out without encoding much more than those.
  virtual std::optional<std::vector<Token>> encode_within(std::string_view text, EncodeOptions options,
                                                          std::size_t most) const = 0;
  // Tells first tokens of texts, and keeps the memory that it takes. One thread's; the tokenizer outlives it.
  struct FirstToken {
    virtual ~FirstToken() = default;
    // The token that every text begins with which goes on from this one, encoded without control tokens;
    // `whole`: nothing follows. nullopt: what follows decides it, or it cannot be told. After a token that it
    // gives, it gives the next token of that encoding or none.
    virtual std::optional<Token> of(std::string_view text, bool whole) = 0;
  };
  // null: this kind of tokenizer cannot tell.
  virtual std::unique_ptr<FirstToken> first_token() const { return nullptr; }
  // How few tokens a text can be, whatever the options.
  const TokenBound& bound() const noexcept { return bound_; }

  // The bytes a token stands for; control tokens give "" unless render_special. Precondition: token <
  // vocab_size.
  std::string_view bytes(Token token, bool render_special = false) const noexcept;
  // SentencePiece files strip one leading space of a decoded text (add_space_prefix).
  virtual bool strips_leading_space() const noexcept = 0;

  std::uint32_t vocab_size() const noexcept { return vocab_size_; }
  TokenKind kind(Token token) const noexcept { return kinds_[static_cast<std::size_t>(token)]; }
  std::optional<Token> bos() const noexcept { return bos_; }
  std::optional<Token> eos() const noexcept { return eos_; }
  const std::optional<InfillTokens>& infill() const noexcept { return infill_; }
  bool is_end_of_generation(Token token) const noexcept;  // EOS, EOT, <|im_end|> and their like
  // The token's own spelling in the vocabulary ("<|im_end|>"), for chat templates' bos_token and eos_token.
  virtual std::string_view piece(Token token) const noexcept = 0;

 protected:
  virtual std::string_view normal_bytes(Token token) const noexcept = 0;  // of TokenKind::normal
  // Comes of its own spelling alone, never of what merges. Precondition: id < vocab_size.
  bool is_control(std::uint32_t id) const noexcept {
    return kinds_[id] == TokenKind::control || markers_[id];
  }

  std::uint32_t vocab_size_ = 0;
  std::vector<TokenKind> kinds_;
  std::vector<bool> markers_;  // as in VocabularyMetadata
  std::optional<Token> bos_, eos_;
  std::optional<InfillTokens> infill_;
  std::vector<Token> end_of_generation_;  // sorted
  TokenBound bound_;
};

}  // namespace flyball::text
