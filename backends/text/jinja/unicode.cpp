#include "backends/text/jinja/unicode.hpp"

#include <cstdint>

namespace flyball::text::jinja {
namespace {

bool is_continuation(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

bool in(char32_t c, char32_t first, char32_t last) noexcept {
  return c >= first && c <= last;
}

// Blocks where capitals and small letters alternate: even is capital, or odd is.
bool alternates_even(char32_t c) noexcept {
  return in(c, 0x100, 0x137) || in(c, 0x14A, 0x177) || in(c, 0x1DE, 0x1EF) || in(c, 0x1F8, 0x21F) ||
         in(c, 0x222, 0x233) || in(c, 0x370, 0x373) || in(c, 0x3D8, 0x3EF) || in(c, 0x460, 0x481) ||
         in(c, 0x48A, 0x4BF) || in(c, 0x4D0, 0x52F) || in(c, 0x1E00, 0x1E95) || in(c, 0x1EA0, 0x1EFF);
}
bool alternates_odd(char32_t c) noexcept {
  return in(c, 0x139, 0x148) || in(c, 0x179, 0x17E) || in(c, 0x1CD, 0x1DC) || in(c, 0x4C1, 0x4CE);
}
// Members of those blocks that have no partner, or another one.
bool is_caseless_exception(char32_t c) noexcept {
  return c == 0x130 || c == 0x131 || c == 0x149 || c == 0x138;
}

}  // namespace

bool is_valid_utf8(std::string_view text) noexcept {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t more = 0;
    char32_t value = 0;
    char32_t least = 0;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1, value = lead & 0x1FU, least = 0x80;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      more = 2, value = lead & 0x0FU, least = 0x800;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3, value = lead & 0x07U, least = 0x10000;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if (!is_continuation(text[i + k])) return false;
      value = (value << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    }
    if (value < least || value > 0x10FFFF || in(value, 0xD800, 0xDFFF)) return false;
    i += more + 1;
  }
  return true;
}

std::size_t length(std::string_view text) noexcept {
  std::size_t count = 0;
  for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
  return count;
}

char32_t next_code_point(std::string_view text, std::size_t& at) noexcept {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t value = lead & (0x3FU >> more);
  for (int k = 0; k < more && at < text.size(); ++k) {
    value = (value << 6) | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  }
  return value;
}

std::size_t offset_of(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  while (index > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
    --index;
  }
  return at;
}

std::size_t previous(std::string_view text, std::size_t end) noexcept {
  --end;
  while (end > 0 && is_continuation(text[end])) --end;
  return end;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6)), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F)), put(0x80 | ((c >> 6) & 0x3F)),
        put(0x80 | (c & 0x3F));
  }
}

bool is_space(char32_t c) noexcept {
  return in(c, 0x09, 0x0D) || in(c, 0x1C, 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         in(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) noexcept {
  if (c < 0x7F) return c >= 0x20;
  if (is_space(c)) return false;
  return !(in(c, 0x7F, 0xA0) || c == 0xAD || in(c, 0x600, 0x605) || c == 0x61C || c == 0x6DD || c == 0x70F ||
           c == 0x180E || in(c, 0x200B, 0x200F) || in(c, 0x2028, 0x202E) || in(c, 0x2060, 0x206F) ||
           in(c, 0xD800, 0xF8FF) || c == 0xFEFF || in(c, 0xFFF0, 0xFFFB) || in(c, 0xFFFE, 0xFFFF) ||
           in(c, 0xE0000, 0xE00FF) || c >= 0xE01F0);
}

bool is_digit(char32_t c) noexcept {
  return in(c, '0', '9') || in(c, 0x660, 0x669) || in(c, 0x6F0, 0x6F9) || in(c, 0x966, 0x96F) ||
         in(c, 0xFF10, 0xFF19);
}

bool is_alpha(char32_t c) noexcept {
  if (c < 0x80) return in(c | 0x20U, 'a', 'z');
  if (c < 0xC0) return c == 0xAA || c == 0xB5 || c == 0xBA;
  if (c == 0xD7 || c == 0xF7 || is_space(c) || is_digit(c) || !is_printable(c)) return false;
  // Punctuation, symbols, marks and emoji blocks; what remains above U+00C0 is letters of some script.
  return !(in(c, 0x2C2, 0x2C5) || in(c, 0x2D2, 0x2DF) || in(c, 0x300, 0x36F) || in(c, 0x2010, 0x2070) ||
           in(c, 0x2074, 0x207E) || in(c, 0x2080, 0x208E) || in(c, 0x20A0, 0x2101) || in(c, 0x2190, 0x2BFF) ||
           in(c, 0x2E00, 0x2FFF) || in(c, 0x3001, 0x3004) || in(c, 0x3007, 0x3030) || in(c, 0xFE00, 0xFE6F) ||
           in(c, 0xFF01, 0xFF20) || in(c, 0xFF3B, 0xFF40) || in(c, 0xFF5B, 0xFF65) ||
           in(c, 0x1F000, 0x1FBFF));
}

bool is_word(char32_t c) noexcept {
  return c == '_' || is_alpha(c) || is_digit(c);
}

bool is_upper(char32_t c) noexcept {
  return to_lower(c) != c;
}

bool is_lower(char32_t c) noexcept {
  return to_upper(c) != c || c == 0xDF || c == 0xAA || c == 0xBA || c == 0x138 || c == 0x149;
}

char32_t to_upper(char32_t c) noexcept {
  if (c < 0x80) return in(c, 'a', 'z') ? c - 32 : c;
  if (c == 0xB5) return 0x39C;
  if (in(c, 0xE0, 0xFE) && c != 0xF7) return c - 32;
  if (c == 0xFF) return 0x178;
  if (c == 0x131) return 'I';
  if (c == 0x17F) return 'S';
  if (is_caseless_exception(c)) return c;
  if (alternates_even(c)) return c & ~char32_t{1};
  if (alternates_odd(c)) return (c & 1U) == 0 ? c - 1 : c;
  if (c == 0x3AC) return 0x386;
  if (in(c, 0x3AD, 0x3AF)) return c - 37;
  if (c == 0x3C2) return 0x3A3;
  if (in(c, 0x3B1, 0x3CB)) return c - 32;
  if (c == 0x3CC) return 0x38C;
  if (c == 0x3CD || c == 0x3CE) return c - 63;
  if (in(c, 0x430, 0x44F)) return c - 32;
  if (in(c, 0x450, 0x45F)) return c - 80;
  if (c == 0x4CF) return 0x4C0;
  if (in(c, 0x561, 0x586)) return c - 48;
  if (in(c, 0x10D0, 0x10FA) || in(c, 0x10FD, 0x10FF)) return c + 0xBC0;
  if (in(c, 0xFF41, 0xFF5A)) return c - 32;
  return c;
}

char32_t to_lower(char32_t c) noexcept {
  if (c < 0x80) return in(c, 'A', 'Z') ? c + 32 : c;
  if (in(c, 0xC0, 0xDE) && c != 0xD7) return c + 32;
  if (c == 0x178) return 0xFF;
  if (is_caseless_exception(c)) return c;
  if (alternates_even(c)) return c | 1U;
  if (alternates_odd(c)) return (c & 1U) == 1 ? c + 1 : c;
  if (c == 0x386) return 0x3AC;
  if (in(c, 0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (c == 0x38E || c == 0x38F) return c + 63;
  if (in(c, 0x391, 0x3AB) && c != 0x3A2) return c + 32;
  if (in(c, 0x410, 0x42F)) return c + 32;
  if (in(c, 0x400, 0x40F)) return c + 80;
  if (c == 0x4C0) return 0x4CF;
  if (in(c, 0x531, 0x556)) return c + 48;
  if (in(c, 0x1C90, 0x1CBA) || in(c, 0x1CBD, 0x1CBF)) return c - 0xBC0;
  if (c == 0x1E9E) return 0xDF;
  if (in(c, 0xFF21, 0xFF3A)) return c + 32;
  return c;
}

std::string_view strip(std::string_view text, Side side) noexcept {
  const auto sides = static_cast<int>(side);
  if ((sides & 1) != 0) {
    while (!text.empty()) {
      std::size_t at = 0;
      if (!is_space(next_code_point(text, at))) break;
      text.remove_prefix(at);
    }
  }
  if ((sides & 2) != 0) {
    while (!text.empty()) {
      const std::size_t start = previous(text, text.size());
      std::size_t at = start;
      if (!is_space(next_code_point(text, at))) break;
      text = text.substr(0, start);
    }
  }
  return text;
}

std::string_view strip(std::string_view text, std::string_view chars, Side side) noexcept {
  const auto sides = static_cast<int>(side);
  if ((sides & 1) != 0) {
    while (!text.empty()) {
      const std::size_t size = offset_of(text, 1);
      if (chars.find(text.substr(0, size)) == std::string_view::npos) break;
      text.remove_prefix(size);
    }
  }
  if ((sides & 2) != 0) {
    while (!text.empty()) {
      const std::size_t start = previous(text, text.size());
      if (chars.find(text.substr(start)) == std::string_view::npos) break;
      text = text.substr(0, start);
    }
  }
  return text;
}

void append_upper(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "SS";
  } else {
    append_utf8(out, to_upper(c));
  }
}

char32_t lower_between(char32_t c, bool after_letter, std::string_view rest) noexcept {
  std::size_t ahead = 0;
  const bool is_final =
      c == 0x3A3 && after_letter && (rest.empty() || !is_alpha(next_code_point(rest, ahead)));
  return is_final ? char32_t{0x3C2} : to_lower(c);
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    append_utf8(out, lower_between(c, in_word, text.substr(i)));
    in_word = is_alpha(c);
  }
  return out;
}

}  // namespace flyball::text::jinja
