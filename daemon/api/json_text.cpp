#include "daemon/api/json_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace flyball::api {
namespace {

// Length of the well-formed UTF-8 sequence that begins at text[at]; 0 if there is none (Unicode table 3-7).
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto tail = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b == 0xE0) return tail(1, 0xA0) && tail(2) ? 3 : 0;
  if (b == 0xED) return tail(1, 0x80, 0x9F) && tail(2) ? 3 : 0;
  if (b >= 0xE1 && b <= 0xEF) return tail(1) && tail(2) ? 3 : 0;
  if (b == 0xF0) return tail(1, 0x90) && tail(2) && tail(3) ? 4 : 0;
  if (b >= 0xF1 && b <= 0xF3) return tail(1) && tail(2) && tail(3) ? 4 : 0;
  if (b == 0xF4) return tail(1, 0x80, 0x8F) && tail(2) && tail(3) ? 4 : 0;
  return 0;
}

// The escape of a character that must not stand in a JSON string. `space` holds one without a name.
std::string_view escape_of(unsigned char c, std::array<char, 6>& space) noexcept {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  space = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
  return {space.data(), space.size()};
}

// Calls `append` with the parts of `text` as they stand in a JSON string.
template <class Append>
void for_each_part(std::string_view text, Append append) {
  std::array<char, 6> space{};
  std::size_t plain = 0;  // text[plain, i) can be copied as it is
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    const std::size_t length = c < 0x80 ? 0 : utf8_length(text, i);
    if (length > 0) {
      i += length;
      continue;
    }
    append(text.substr(plain, i - plain));
    append(c < 0x80 ? escape_of(c, space) : std::string_view("\xEF\xBF\xBD"));
    plain = ++i;
  }
  append(text.substr(plain));
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  append_json_text(out, text);
  out.push_back('"');
}

void append_json_text(std::string& out, std::string_view text) {
  for_each_part(text, [&](std::string_view part) { out.append(part); });
}

std::size_t json_text_bytes(std::string_view text) noexcept {
  std::size_t n = 0;
  for_each_part(text, [&](std::string_view part) { n += part.size(); });
  return n;
}

std::size_t cut_of_text(std::string_view text, std::size_t at) noexcept {
  if (at >= text.size()) return text.size();
  // A character has at most three bytes behind its first; where there are more, they belong to none.
  for (std::size_t cut = at; cut + 4 > at && cut > 0; --cut)
    if ((static_cast<unsigned char>(text[cut]) & 0xC0U) != 0x80U) return cut;
  return at;
}

void append_json(std::string& out, JsonView value) {
  switch (value.kind()) {
    case JsonKind::null:
      out.append("null");
      return;
    case JsonKind::no:
      out.append("false");
      return;
    case JsonKind::yes:
      out.append("true");
      return;
    case JsonKind::integer:
      out.append(std::to_string(value.as_integer()));
      return;
    case JsonKind::digits:
      out.append(value.text());
      return;
    case JsonKind::real:
      append_json_number(out, value.as_double());
      return;
    case JsonKind::string:
      append_json_string(out, value.text());
      return;
    case JsonKind::array:
    case JsonKind::object:
      break;
  }
  const bool is_object = value.is_object();
  out.push_back(is_object ? '{' : '[');
  std::string_view separator;
  for (const auto& [key, member] : value.members()) {
    out.append(std::exchange(separator, ", "));
    if (is_object) {
      append_json_string(out, key);
      out.append(": ");
    }
    append_json(out, member);
  }
  out.push_back(is_object ? '}' : ']');
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out.append("null");
    return;
  }
  char buffer[32];
  // Whole numbers that a double holds exactly are written out: 1000000, not 1e+06.
  constexpr double kWhole = 1e15;
  const bool whole = std::fabs(value) < kWhole && std::trunc(value) == value;
  const auto end = whole ? std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr
                         : std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

}  // namespace flyball::api
