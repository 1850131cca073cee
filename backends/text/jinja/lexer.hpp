// Jinja2 source to tokens, with trim_blocks and lstrip_blocks on and the one trailing newline dropped, as
// Hugging Face transformers sets its environment. Whitespace control is settled here: text tokens are what is
// output.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/text/jinja/ast.hpp"

namespace flyball::text::jinja {

enum class TokenKind : std::uint8_t {
  text,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,   // unescaped
  integer,  // digits as written
  real,
  symbol,  // operators and brackets, as written
  end,
};

struct LexToken {
  TokenKind kind;
  std::uint32_t line;
  std::string_view text;  // into the program's source or texts

  bool is_symbol(std::string_view symbol) const noexcept {
    return kind == TokenKind::symbol && text == symbol;
  }
  bool is_name(std::string_view name) const noexcept { return kind == TokenKind::name && text == name; }
};

// Normalizes program.source (newlines) and tokenizes it; the views stay valid with the program. Throws
// Failure.
std::vector<LexToken> tokenize(Program& program);

}  // namespace flyball::text::jinja
