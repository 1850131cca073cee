// Tokens as the legacy completions API spells and places them. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flyball::api::openai {

// The token's bytes where they are UTF-8 by themselves. Else "bytes:" and the bytes, those outside of
// printable ASCII and the backslash as \xNN: the half of a character has no other name in JSON.
std::string token_text(std::string_view bytes);

// The characters (code points) at which tokens begin in the text that they make, token by token. All tokens
// of one character begin where it does. Bytes that make none count as U+FFFD, which the text has for them;
// but the text leaves out a character at its end that max_tokens cut.
class TextOffsets {
 public:
  std::size_t next(std::string_view bytes);  // of the next token; "": a token that the text leaves out

 private:
  std::size_t characters_ = 0;  // before pending_
  std::string pending_;         // the beginning of a character, at most 3 bytes
};

}  // namespace flyball::api::openai
