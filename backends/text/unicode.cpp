// UTF-8 and the byte-level alphabet.
#include "backends/text/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

namespace flyball::text {
namespace {

struct CodePoint {
  std::uint32_t value;
  std::uint32_t length;
  bool decoded;
};

std::uint32_t byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

// The lead byte gives the length and the rest must be continuation bytes; overlong forms and surrogates pass.
CodePoint read_lenient(std::string_view text, std::size_t at) noexcept {
  constexpr CodePoint kUndecoded{0xFFFD, 1, false};
  const std::uint32_t lead = byte_at(text, at);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC0 || lead >= 0xF8) return kUndecoded;
  const std::uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < length) return kUndecoded;
  std::uint32_t value = lead & (0x7FU >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    const std::uint32_t next = byte_at(text, at + i);
    if ((next & 0xC0U) != 0x80U) return kUndecoded;
    value = value << 6U | (next & 0x3FU);
  }
  if (value > 0x10FFFF) return kUndecoded;
  return {value, length, true};
}

std::uint32_t encoded_length(std::uint32_t value) noexcept {
  return value < 0x80 ? 1 : value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
}

// What Unicode 15.0 and 15.1 added to the categories that pre-tokenizer patterns name (letters, numbers,
// marks, punctuation, symbols), with an older character of that category and UTF-8 length to stand in for it.
struct StandIn {
  std::uint32_t first, last, substitute;
};
constexpr std::uint32_t kMark3 = 0x0CBC, kSymbol3 = 0x2FFB, kPrivate3 = 0xE000;
constexpr std::uint32_t kLetter4 = 0x10380, kNumber4 = 0x11066, kMark4 = 0x11001, kPunctuation4 = 0x11047,
                        kSymbol4 = 0x1F300;
constexpr StandIn kStandIns[] = {
    {0x0CF3, 0x0CF3, kMark3},     {0x0ECE, 0x0ECE, kMark3},          {0x2FFC, 0x2FFF, kSymbol3},
    {0x31EF, 0x31EF, kSymbol3},   {0xD800, 0xDFFF, kPrivate3},       {0x10EFD, 0x10EFF, kMark4},
    {0x1123F, 0x11240, kLetter4}, {0x11241, 0x11241, kMark4},        {0x11B00, 0x11B09, kPunctuation4},
    {0x11F00, 0x11F01, kMark4},   {0x11F02, 0x11F02, kLetter4},      {0x11F03, 0x11F03, kMark4},
    {0x11F04, 0x11F10, kLetter4}, {0x11F12, 0x11F33, kLetter4},      {0x11F34, 0x11F3A, kMark4},
    {0x11F3E, 0x11F42, kMark4},   {0x11F43, 0x11F4F, kPunctuation4}, {0x11F50, 0x11F59, kNumber4},
    {0x1342F, 0x1342F, kLetter4}, {0x13440, 0x13440, kMark4},        {0x13441, 0x13446, kLetter4},
    {0x13447, 0x13455, kMark4},   {0x1B132, 0x1B132, kLetter4},      {0x1B155, 0x1B155, kLetter4},
    {0x1D2C0, 0x1D2D3, kNumber4}, {0x1DF25, 0x1DF2A, kLetter4},      {0x1E030, 0x1E06D, kLetter4},
    {0x1E08F, 0x1E08F, kMark4},   {0x1E4D0, 0x1E4EB, kLetter4},      {0x1E4EC, 0x1E4EF, kMark4},
    {0x1E4F0, 0x1E4F9, kNumber4}, {0x1F6DC, 0x1F6DC, kSymbol4},      {0x1F774, 0x1F776, kSymbol4},
    {0x1F77B, 0x1F77F, kSymbol4}, {0x1F7D9, 0x1F7D9, kSymbol4},      {0x1FA75, 0x1FA77, kSymbol4},
    {0x1FA87, 0x1FA88, kSymbol4}, {0x1FAAD, 0x1FAAF, kSymbol4},      {0x1FABB, 0x1FABD, kSymbol4},
    {0x1FABF, 0x1FABF, kSymbol4}, {0x1FACE, 0x1FACF, kSymbol4},      {0x1FADA, 0x1FADB, kSymbol4},
    {0x1FAE8, 0x1FAE8, kSymbol4}, {0x1FAF7, 0x1FAF8, kSymbol4},      {0x2B739, 0x2B739, kLetter4},
    {0x2EBF0, 0x2EE5D, kLetter4}, {0x31350, 0x323AF, kLetter4},
};
static_assert(std::ranges::is_sorted(kStandIns, {}, &StandIn::first));

// 0 where the character stands for itself.
std::uint32_t stand_in(std::uint32_t value) noexcept {
  if (value < kStandIns[0].first) return 0;
  const auto* after = std::ranges::upper_bound(kStandIns, value, {}, &StandIn::first);
  const StandIn& range = *std::prev(after);
  return value <= range.last ? range.substitute : 0;
}

bool is_ascii8(const char* data) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return (word & 0x8080808080808080ULL) == 0;
}

// GPT-2's bytes_to_unicode: printable Latin-1 stays, the other 68 bytes follow from U+0100.
constexpr bool is_printable_latin1(std::uint32_t byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}
constexpr std::uint32_t kAlphabetEnd = 0x100 + 68;
constexpr std::array<std::int16_t, kAlphabetEnd> kByteOf = [] {
  std::array<std::int16_t, kAlphabetEnd> table{};
  table.fill(-1);
  std::int16_t next = 0x100;
  for (std::int16_t byte = 0; byte < 256; ++byte) {
    if (is_printable_latin1(static_cast<std::uint32_t>(byte))) {
      table[static_cast<std::size_t>(byte)] = byte;
    } else {
      table[static_cast<std::size_t>(next++)] = byte;
    }
  }
  return table;
}();

constexpr std::array<char, 256> kAllBytes = [] {
  std::array<char, 256> bytes{};
  for (int i = 0; i < 256; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(i);
  return bytes;
}();

int hex_digit(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

void append_utf8(std::string& out, std::uint32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  if (code_point < 0x800) {
    out += static_cast<char>(0xC0U | code_point >> 6U);
  } else {
    if (code_point < 0x10000) {
      out += static_cast<char>(0xE0U | code_point >> 12U);
    } else {
      out += static_cast<char>(0xF0U | code_point >> 18U);
      out += static_cast<char>(0x80U | (code_point >> 12U & 0x3FU));
    }
    out += static_cast<char>(0x80U | (code_point >> 6U & 0x3FU));
  }
  out += static_cast<char>(0x80U | (code_point & 0x3FU));
}

Utf8Step utf8_step(std::string_view text, std::size_t at) noexcept {
  using Kind = Utf8Step::Kind;
  const std::uint32_t lead = byte_at(text, at);
  if (lead < 0x80) return {Kind::valid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::invalid, 1};
  const std::uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::uint32_t i = 1; i < length; ++i) {
    if (at + i == text.size()) return {Kind::incomplete, i};
    const std::uint32_t next = byte_at(text, at + i);
    // The second byte's range keeps out overlong forms, surrogates and what lies above U+10FFFF.
    const std::uint32_t low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint32_t high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (next < low || next > high) return {Kind::invalid, i};
  }
  return {Kind::valid, length};
}

PreparedText prepare_text(std::string_view input, PreparedStorage& storage) {
  bool rewrite = false;
  bool substitute = false;
  for (std::size_t at = 0; at < input.size();) {
    if (input.size() - at >= 8 && is_ascii8(input.data() + at)) {
      at += 8;
      continue;
    }
    const CodePoint point = read_lenient(input, at);
    rewrite = rewrite || !point.decoded || encoded_length(point.value) != point.length;
    substitute = substitute || stand_in(point.value) != 0;
    at += point.length;
  }
  PreparedText prepared{input, input};
  if (rewrite) {
    storage.text.clear();
    for (std::size_t at = 0; at < input.size();) {
      const CodePoint point = read_lenient(input, at);
      append_utf8(storage.text, point.value);
      at += point.length;
    }
    prepared.text = prepared.subject = storage.text;
  }
  if (substitute) {
    storage.subject.clear();
    for (std::size_t at = 0; at < prepared.text.size();) {
      const CodePoint point = read_lenient(prepared.text, at);
      const std::uint32_t other = stand_in(point.value);
      append_utf8(storage.subject, other != 0 ? other : point.value);
      at += point.length;
    }
    prepared.subject = storage.subject;
  }
  return prepared;
}

bool append_byte_level(std::string& out, std::string_view piece) {
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < piece.size();) {
    const CodePoint point = read_lenient(piece, at);
    const bool canonical = point.decoded && encoded_length(point.value) == point.length;
    if (!canonical || point.value >= kAlphabetEnd || kByteOf[point.value] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(kByteOf[point.value]);
    at += point.length;
  }
  return true;
}

std::optional<std::uint8_t> parse_byte_piece(std::string_view piece) noexcept {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

std::string_view byte_view(std::uint8_t byte) noexcept {
  return {kAllBytes.data() + byte, 1};
}

}  // namespace flyball::text
