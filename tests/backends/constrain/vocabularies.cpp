#include "tests/backends/constrain/vocabularies.hpp"

#include <array>

namespace flyball::constrain::testing {
namespace {

void add_specials(Tokens& tokens, Random& random) {
  for (const char* end : {"<end>", "a"}) {
    tokens.ends.push_back(static_cast<TokenId>(tokens.bytes.size()));
    tokens.bytes.emplace_back(end);
  }
  for (int i = 0; i < 3; ++i) {
    tokens.forbidden.push_back(below(random, static_cast<std::uint32_t>(tokens.bytes.size() - 2)));
  }
  tokens.bytes.emplace_back();
}

}  // namespace

Tokens random_tokens(Random& random, std::string_view alphabet) {
  Tokens out;
  for (std::uint32_t n = 5 + below(random, 80); n > 0; --n) {
    std::string text;
    for (std::uint32_t length = 1 + below(random, 6); length > 0; --length) {
      text += alphabet[below(random, static_cast<std::uint32_t>(alphabet.size()))];
    }
    out.bytes.push_back(std::move(text));
  }
  out.bytes.push_back(std::string(66, 'z'));
  add_specials(out, random);
  return out;
}

Tokens json_tokens(Random& random) {
  constexpr std::array<std::string_view, 30> kPieces{
      "a",  "b",  " ",    "0",    "12",   "e",    "\"",       "\"",   ",",        ":",
      "[",  "]",  "{",    "}",    "\\",   "\\n",  "\\u00",    "true", "\xC3\xA9", "\xE4\xBD\xA0",
      "\n", "\t", "\xC3", "\xA9", "\xED", "\xA0", "\xF0\x9F", "-",    "null",     "text of some length"};
  Tokens out;
  for (int byte = 0; byte < 256; ++byte) out.bytes.emplace_back(1, static_cast<char>(byte));
  for (int n = 0; n < 300; ++n) {
    std::string text;
    for (std::uint32_t pieces = 1 + below(random, 5); pieces > 0; --pieces)
      text += kPieces[below(random, 30)];
    out.bytes.push_back(std::move(text));
  }
  for (const std::size_t length : {2U, 3U, 4U, 5U, 8U, 15U, 16U, 17U, 20U, 40U}) {
    out.bytes.emplace_back(length, 'x');
    out.bytes.push_back(std::string(length, 'x') + '"');
    out.bytes.push_back(std::string(length - 1, 'x') + "\xC3\xA9");
    out.bytes.push_back(std::string(length / 2, ']'));
  }
  add_specials(out, random);
  return out;
}

}  // namespace flyball::constrain::testing
