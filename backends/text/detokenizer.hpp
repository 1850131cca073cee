// Tokens to text as they arrive, never emitting half a UTF-8 sequence: bytes that may still become a character are
// held back; bytes that cannot are emitted as U+FFFD.
#pragma once

#include <string>
#include <string_view>

#include "backends/text/tokenizer.hpp"

namespace flyball::text {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  // at_start: the text begins here (after a prompt it does not, and no leading space is stripped).
  std::string push(Token token);
  // What is still held back, as U+FFFD where incomplete.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

}  // namespace flyball::text
