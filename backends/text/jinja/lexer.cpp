#include "backends/text/jinja/lexer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "backends/text/jinja/failure.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

// Longer ones first.
constexpr std::array<std::string_view, 26> kSymbols{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// \r\n and \r become \n; one newline at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(Program& program) : program_(&program), source_(program.source) {}

  std::vector<LexToken> run() {
    while (at_ < source_.size()) root();
    tokens_.push_back({TokenKind::end, line_, {}});
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void advance(std::size_t to) {
    line_ += static_cast<std::uint32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                   source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) line_starts_ = source_[to - 1] == '\n';
    at_ = to;
  }
  std::size_t spaces_from(std::size_t from) const {
    const std::string_view rest = source_.substr(from);
    return from + (rest.size() - strip(rest, Side::left).size());
  }
  void push_text(std::string_view text, std::uint32_t line) {
    if (!text.empty()) tokens_.push_back({TokenKind::text, line, text});
  }

  // What of the text before a tag is kept. sign: the tag's '-' or '+'; blocks and comments are left-stripped.
  std::string_view keep_before(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, Side::right);
    if (sign == '+' || is_variable) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if (start == 0 && !line_starts_) return text;
    return strip(text.substr(start)).empty() ? text.substr(0, start) : text;
  }

  void root() {
    std::size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        push_text(source_.substr(at_), line_);
        advance(source_.size());
        return;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const char type = source_[tag + 1];
    std::size_t after = tag + 2;
    const char sign =
        after < source_.size() && (source_[after] == '-' || source_[after] == '+') ? source_[after] : ' ';
    if (sign != ' ') ++after;
    const std::uint32_t text_line = line_;
    push_text(keep_before(source_.substr(at_, tag - at_), sign, type == '{'), text_line);
    advance(tag);
    if (type == '#') return comment(after);
    if (type == '%' && raw(after)) return;
    tokens_.push_back({type == '{' ? TokenKind::variable_begin : TokenKind::block_begin, line_, {}});
    advance(after);
    inside(type == '{');
  }

  // Byte offset behind the end of a block or comment tag that starts with '-', '+' or nothing before `close`;
  // npos if it does not stand at `from`.
  std::size_t tag_end(std::size_t from, std::string_view close, bool is_variable = false) const {
    const std::string_view rest = source_.substr(std::min(from, source_.size()));
    if (rest.starts_with('-') && rest.substr(1).starts_with(close))
      return spaces_from(from + 1 + close.size());
    if (!is_variable && rest.starts_with('+') && rest.substr(1).starts_with(close))
      return from + 1 + close.size();
    if (!rest.starts_with(close)) return std::string_view::npos;
    const std::size_t end = from + close.size();
    return !is_variable && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void comment(std::size_t from) {
    std::size_t close = source_.find("#}", from);
    if (close == std::string_view::npos) fail_template("a comment is not closed with '#}'", line_);
    if (close > from && (source_[close - 1] == '-' || source_[close - 1] == '+')) --close;
    advance(tag_end(close, "#}"));
  }

  // {% raw %} ... {% endraw %}: all of it is text. False if the tag at at_ is another one.
  bool raw(std::size_t from) {
    std::size_t cursor = spaces_from(from);
    if (!source_.substr(cursor).starts_with("raw")) return false;
    cursor = spaces_from(cursor + 3);
    const std::string_view rest = source_.substr(cursor);
    std::size_t start = 0;
    if (rest.starts_with("-%}")) {
      start = spaces_from(cursor + 3);
    } else if (rest.starts_with("%}")) {
      start = cursor + 2;
    } else {
      return false;
    }
    const std::uint32_t opened = line_;
    advance(start);
    for (std::size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
      std::size_t inner = tag + 2;
      const char sign =
          inner < source_.size() && (source_[inner] == '-' || source_[inner] == '+') ? source_[inner] : ' ';
      inner = spaces_from(std::min(source_.size(), sign == ' ' ? inner : inner + 1));
      if (!source_.substr(inner).starts_with("endraw")) continue;
      const std::size_t end = tag_end(spaces_from(inner + 6), "%}");
      if (end == std::string_view::npos) continue;
      push_text(keep_before(source_.substr(at_, tag - at_), sign, false), line_);
      advance(end);
      return true;
    }
    fail_template("{% raw %} is not closed with {% endraw %}", opened);
  }

  void inside(bool is_variable) {
    const std::string_view close = is_variable ? "}}" : "%}";
    const std::uint32_t opened = line_;
    std::string brackets;
    while (true) {
      advance(spaces_from(at_));
      if (at_ >= source_.size())
        fail_template("a tag is not closed with '" + std::string(close) + "'", opened);
      if (brackets.empty()) {
        const std::size_t end = tag_end(at_, close, is_variable);
        if (end != std::string_view::npos) {
          tokens_.push_back({is_variable ? TokenKind::variable_end : TokenKind::block_end, line_, {}});
          advance(end);
          return;
        }
      }
      token(brackets);
    }
  }

  void token(std::string& brackets) {
    const char c = peek();
    if (c >= '0' && c <= '9') return number();
    if (c == '\'' || c == '"') return string(c);
    std::size_t end = at_;
    while (end < source_.size()) {
      std::size_t next = end;
      if (!is_word(next_code_point(source_, next))) break;
      end = next;
    }
    if (end > at_) {
      tokens_.push_back({TokenKind::name, line_, source_.substr(at_, end - at_)});
      return advance(end);
    }
    for (const std::string_view symbol : kSymbols) {
      if (!looking_at(symbol)) continue;
      bracket(symbol[0], brackets);
      tokens_.push_back({TokenKind::symbol, line_, source_.substr(at_, symbol.size())});
      return advance(at_ + symbol.size());
    }
    std::size_t next = at_;
    next_code_point(source_, next);
    fail_template("unexpected character '" + std::string(source_.substr(at_, next - at_)) + "'", line_);
  }

  void bracket(char c, std::string& brackets) const {
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets.empty() || brackets.back() != c) {
      fail_template("unexpected '" + std::string(1, c) + "'" +
                        (brackets.empty() ? "" : ", expected '" + std::string(1, brackets.back()) + "'"),
                    line_);
    }
    brackets.pop_back();
  }

  std::size_t digits(std::size_t from, auto&& is_one) const {
    std::size_t end = from;
    while (end < source_.size()) {
      if (is_one(source_[end])) {
        ++end;
      } else if (source_[end] == '_' && end > from && end + 1 < source_.size() && is_one(source_[end + 1])) {
        ++end;
      } else {
        break;
      }
    }
    return end;
  }

  void number() {
    const auto decimal = [](char c) { return c >= '0' && c <= '9'; };
    const bool after_dot =
        !tokens_.empty() && tokens_.back().is_symbol(".") && at_ > 0 && source_[at_ - 1] == '.';
    std::size_t end = digits(at_, decimal);
    TokenKind kind = TokenKind::integer;
    if (!after_dot) {
      std::size_t tail = end;
      if (tail + 1 < source_.size() && source_[tail] == '.' && decimal(source_[tail + 1]))
        tail = digits(tail + 1, decimal);
      if (tail < source_.size() && (source_[tail] == 'e' || source_[tail] == 'E')) {
        std::size_t exponent = tail + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && decimal(source_[exponent])) tail = digits(exponent, decimal);
      }
      if (tail > end) {
        kind = TokenKind::real;
        end = tail;
      }
    }
    if (kind == TokenKind::integer && peek() == '0' && end == at_ + 1 && end < source_.size()) {
      const char base = static_cast<char>(source_[end] | 0x20);
      const auto hexadecimal = [decimal](char c) {
        return decimal(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
      };
      const auto octal = [](char c) { return c >= '0' && c <= '7'; };
      const auto binary = [](char c) { return c == '0' || c == '1'; };
      std::size_t tail = end + 1;
      if (base == 'x') tail = digits(end + 1, hexadecimal);
      if (base == 'o') tail = digits(end + 1, octal);
      if (base == 'b') tail = digits(end + 1, binary);
      if (tail > end + 1) end = tail;
    }
    tokens_.push_back({kind, line_, source_.substr(at_, end - at_)});
    advance(end);
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    bool escaped = false;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] == '\\') {
        escaped = true;
        ++end;
      }
      ++end;
    }
    if (end >= source_.size()) fail_template("a string is not closed", line_);
    const std::string_view inner = source_.substr(at_ + 1, end - at_ - 1);
    tokens_.push_back({TokenKind::string, line_,
                       escaped ? std::string_view(program_->texts.emplace_back(unescape(inner))) : inner});
    advance(end + 1);
  }

  // Reads `count` hexadecimal digits at `from`.
  char32_t hex(std::string_view text, std::size_t from, std::size_t count) const {
    if (from + count > text.size()) fail_template("a string has a truncated \\x, \\u or \\U escape", line_);
    char32_t value = 0;
    for (const char c : text.substr(from, count)) {
      const char low = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<char32_t>(c - '0');
      } else if (low >= 'a' && low <= 'f') {
        value = value * 16 + static_cast<char32_t>(low - 'a' + 10);
      } else {
        fail_template("a string has a malformed \\x, \\u or \\U escape", line_);
      }
    }
    return value;
  }

  // Python's unicode-escape.
  std::string unescape(std::string_view text) const {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out.push_back(text[i++]);
        continue;
      }
      const char c = text[i + 1];  // the lexer saw a byte behind each backslash
      i += 2;
      if (const std::size_t known = kFrom.find(c); known != std::string_view::npos) {
        out.push_back(kTo[known]);
      } else if (c == '\n') {
        continue;
      } else if (c >= '0' && c <= '7') {
        char32_t value = static_cast<char32_t>(c - '0');
        for (int k = 0; k < 2 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++k) {
          value = value * 8 + static_cast<char32_t>(text[i++] - '0');
        }
        append_utf8(out, value);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const char32_t value = hex(text, i, count);
        if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
          fail_template("a string escapes no Unicode character", line_);
        }
        append_utf8(out, value);
        i += count;
      } else if (c == 'N') {
        fail_template("\\N{...} escapes are not supported", line_);
      } else if (static_cast<unsigned char>(c) >= 0x80) {
        // Jinja2 spells the character as an escape first, and the backslash before it then escapes that
        // backslash.
        std::size_t at = i - 1;
        const auto point = static_cast<unsigned>(next_code_point(text, at));
        i = at;
        std::array<char, 16> spelled{};
        const char* format = point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x";
        std::snprintf(spelled.data(), spelled.size(), format, point);
        out += spelled.data();
      } else {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  Program* program_;
  std::string_view source_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool line_starts_ = true;
  std::vector<LexToken> tokens_;
};

}  // namespace

std::vector<LexToken> tokenize(Program& program) {
  program.source = normalize(program.source);
  return Lexer(program).run();
}

}  // namespace flyball::text::jinja
