// UTF-8 as tokenizers need it: strict for what we emit, lenient in llama.cpp's way for what we read, and the
// byte-level alphabet of GPT-2 (every byte as one printable code point).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flyball::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space inside SentencePiece tokens

void append_utf8(std::string& out, std::uint32_t code_point);

// How a sequence starting at `at` reads under Unicode's table of well-formed UTF-8 (15.0, table 3-7).
struct Utf8Step {
  enum class Kind : std::uint8_t { valid, invalid, incomplete } kind;
  std::uint32_t length;  // bytes of the character, of the ill-formed part, or of the incomplete tail
};
Utf8Step utf8_step(std::string_view text, std::size_t at) noexcept;

// A text ready for splitting. `text` is what gets tokenized: the input with each byte that does not decode as
// U+FFFD, overlong forms shortened and surrogates kept, which is what llama.cpp makes of invalid UTF-8.
// `subject` has the same length and is well-formed: surrogates and characters newer than PCRE2's tables
// (Unicode 14) are replaced by older ones of the same category and size. Both view `input` where nothing had
// to change.
struct PreparedText {
  std::string_view text, subject;
};
struct PreparedStorage {
  std::string text, subject;
};
PreparedText prepare_text(std::string_view input, PreparedStorage& storage);

// The bytes a byte-level piece stands for, appended to out. False (out unchanged) where the piece holds a
// code point outside the alphabet.
bool append_byte_level(std::string& out, std::string_view piece);

// "<0x0A>" -> 0x0A.
std::optional<std::uint8_t> parse_byte_piece(std::string_view piece) noexcept;
// A one-byte view with static lifetime.
std::string_view byte_view(std::uint8_t byte) noexcept;

}  // namespace flyball::text
