#include "daemon/api/calls/python_literal.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "daemon/api/calls/json_scanner.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::calls {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords{{{"True", "true"},
                                                                               {"False", "false"},
                                                                               {"None", "null"},
                                                                               {"true", "true"},
                                                                               {"false", "false"},
                                                                               {"null", "null"}}};

constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Writes each token as JSON's; the caller scans the result as JSON.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : rest_(text) {}

  bool read() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      const bool known = c == '\'' || c == '"' ? string() : is_letter(c) ? word() : other();
      if (!known) return false;
    }
    return true;
  }
  std::string take() { return std::move(out_); }

 private:
  // A byte of a number, or one that means the same in JSON; the scanner finds all others.
  bool other() {
    const bool exponent = is_digit_or_point(rest_.front()) && rest_.size() > 1 && (rest_[1] | 0x20) == 'e';
    out_ += rest_.substr(0, exponent ? 2 : 1);
    rest_.remove_prefix(exponent ? 2 : 1);
    return true;
  }
  static bool is_digit_or_point(char c) noexcept { return (c >= '0' && c <= '9') || c == '.'; }

  bool word() {
    std::size_t n = 1;
    while (n < rest_.size() && is_letter(rest_[n])) ++n;
    for (const auto& [python, json] : kWords) {
      if (rest_.substr(0, n) != python) continue;
      out_ += json;
      rest_.remove_prefix(n);
      return true;
    }
    return false;
  }

  bool string() {
    const std::array<char, 2> stops{rest_.front(), '\\'};
    rest_.remove_prefix(1);
    out_ += '"';
    for (;;) {
      const std::size_t n = rest_.find_first_of(std::string_view(stops.data(), stops.size()));
      if (n == std::string_view::npos) return false;
      append_json_text(out_, rest_.substr(0, n));
      const bool ends = rest_[n] == stops[0];
      rest_.remove_prefix(n + 1);
      if (ends) break;
      if (!escape()) return false;
    }
    out_ += '"';
    return true;
  }

  // Behind the backslash.
  bool escape() {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    switch (c) {
      case '\'':
        out_ += c;
        return true;
      case '"':
      case '\\':
      case 'n':
      case 'r':
      case 't':
        out_ += '\\';
        out_ += c;
        return true;
      case 'x':
        return code(2);
      case 'u':
        return code(4);
      case 'U':
        return code(8);
      default:
        return false;
    }
  }

  // A code point of so many hexadecimal digits, as JSON's escapes.
  bool code(std::size_t digits) {
    if (rest_.size() < digits) return false;
    std::uint32_t point = 0;
    for (const char c : rest_.substr(0, digits)) {
      const char lower = static_cast<char>(c | 0x20);
      const bool decimal = c >= '0' && c <= '9';
      if (!decimal && (lower < 'a' || lower > 'f')) return false;
      point = point << 4 | static_cast<std::uint32_t>(decimal ? c - '0' : lower - 'a' + 10);
    }
    if (point > 0x10FFFF) return false;
    rest_.remove_prefix(digits);
    if (point < 0x10000) {
      unit(point);
    } else {
      unit(0xD800 + ((point - 0x10000) >> 10));
      unit(0xDC00 + ((point - 0x10000) & 0x3FF));
    }
    return true;
  }
  void unit(std::uint32_t value) {
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += "0123456789abcdef"[value >> shift & 0xF];
  }

  std::string_view rest_;
  std::string out_;
};

}  // namespace

std::optional<std::string> json_of_python(std::string_view text) {
  if (!text.starts_with('[') && !text.starts_with('{')) return std::nullopt;
  PythonReader reader(text);
  if (!reader.read()) return std::nullopt;
  std::string json = reader.take();
  if (!is_json(json)) return std::nullopt;
  return json;
}

}  // namespace flyball::api::calls
