// Tokens to text as they arrive, never emitting half a UTF-8 sequence: bytes that may still become a
// character are held back; bytes that cannot are emitted as U+FFFD.
#pragma once

#include <string>
#include <string_view>

#include "backends/text/tokenizer.hpp"

namespace flyball::text {

class Detokenizer {
 public:
  // at_start: the text begins with the first token pushed, so the space that SentencePiece tokenizers put
  // before it is dropped. What a model generates after a prompt does not begin a text: its leading space is
  // part of it, so engines leave this false.
  // render_special: control tokens are spelled as the vocabulary spells them; otherwise they have no text.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = false, bool render_special = false)
      : tokenizer_(&tokenizer),
        at_start_(at_start && tokenizer.strips_leading_space()),
        render_special_(render_special) {}
  // The token's bytes, as the text has them if it is pushed next.
  std::string_view bytes(Token token) const noexcept;
  // The text that is certain now: valid UTF-8, possibly empty.
  std::string push(Token token);
  // What is still held back, as U+FFFD where incomplete.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool at_start_;
  bool render_special_;
  std::string pending_;  // at most 3 bytes, the beginning of a character
};

}  // namespace flyball::text
