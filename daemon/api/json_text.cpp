#include "daemon/api/json_text.hpp"

#include <charconv>
#include <cmath>

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

void append_escape(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out.append("\\\"");
      return;
    case '\\':
      out.append("\\\\");
      return;
    case '\n':
      out.append("\\n");
      return;
    case '\r':
      out.append("\\r");
      return;
    case '\t':
      out.append("\\t");
      return;
    default:
      break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  out.append("\\u00");
  out.push_back(kHex[c >> 4]);
  out.push_back(kHex[c & 15]);
}

bool is_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Walks a validated document; positions never pass its end.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  bool at(char c) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!at(c)) return false;
    ++at_;
    return true;
  }
  std::string_view value() {
    at('\0');  // skips blanks
    const std::size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) break;
        --depth;
        ++at_;
      } else if (depth == 0 && (c == ',' || c == ':' || is_blank(c))) {
        break;
      } else {
        ++at_;
      }
      if (depth == 0 && at_ > begin &&
          (text_[at_ - 1] == '"' || text_[at_ - 1] == '}' || text_[at_ - 1] == ']'))
        break;
    }
    return text_.substr(begin, at_ - begin);
  }

 private:
  void skip_string() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ < text_.size()) ++at_;
    if (at_ > text_.size()) at_ = text_.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string_view without_bom(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
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
    out.append(text.substr(plain, i - plain));
    if (c < 0x80)
      append_escape(out, c);
    else
      out.append("\xEF\xBF\xBD");
    plain = ++i;
  }
  out.append(text.substr(plain));
  out.push_back('"');
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

std::vector<JsonMember> json_members(std::string_view object) {
  std::vector<JsonMember> out;
  Walker walker(without_bom(object));
  if (!walker.take('{')) return out;
  while (walker.at('"')) {
    const std::string_view key = walker.value();
    walker.take(':');
    out.push_back({key, walker.value()});
    if (!walker.take(',')) break;
  }
  return out;
}

std::vector<std::string_view> json_elements(std::string_view array) {
  std::vector<std::string_view> out;
  Walker walker(without_bom(array));
  if (!walker.take('[') || walker.at(']')) return out;
  do {
    out.push_back(walker.value());
  } while (walker.take(','));
  return out;
}

}  // namespace flyball::api
