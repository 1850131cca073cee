#include "backends/grammar/gbnf.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/grammar/automata.hpp"
#include "backends/grammar/code_points.hpp"
#include "config/name_list.hpp"
#include "config/utf8.hpp"

namespace flyball::grammar {
namespace {

// Bytes of the name of a rule. Messages show no more than a part of it.
constexpr std::size_t kLongestName = 256;

struct Failure {
  Error error;
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_character(std::string& to, char32_t c) {
  const auto put = [&](char32_t byte) { to.push_back(static_cast<char>(byte)); };
  const auto more = [&](unsigned shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      more(12);
    }
    more(6);
  }
  more(0);
}

// Recursive descent; a Failure is thrown at the place it is about.
class Reader {
 public:
  Reader(std::string_view source, Fuel& fuel, const Limits& limits)
      : source_(source), fuel_(fuel), steps_(fuel.left()), limits_(limits) {}

  Grammar run() {
    if (source_.size() > limits_.text) {
      unsupported("the grammar has " + std::to_string(source_.size()) + " bytes; the limit is " +
                  std::to_string(limits_.text));
    }
    if (!is_utf8(source_)) invalid("the grammar is not valid UTF-8");
    rule_named("root", 0);
    skip_space(true);
    while (at_ < source_.size()) rule();
    charge();
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const RuleId rule{static_cast<std::uint32_t>(i)};
      if (grammar_.is_defined(rule)) continue;
      at_ = uses_[i];
      invalid(i == 0 ? "the grammar has no rule \"root\""
                     : "the rule " + config::quoted(grammar_.name(rule)) + " has no definition");
    }
    return std::move(grammar_);
  }

 private:
  [[noreturn]] void stop(ErrorCode code, std::string message) const {
    const std::string_view before = source_.substr(0, at_);
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = newline == std::string_view::npos ? at_ + 1 : at_ - newline;
    throw Failure{{code,
                   std::move(message),
                   {},
                   "line " + std::to_string(line) + ", column " + std::to_string(column)}};
  }
  [[noreturn]] void invalid(std::string message) const { stop(ErrorCode::invalid_value, std::move(message)); }
  [[noreturn]] void unsupported(std::string message) const {
    stop(ErrorCode::unsupported_feature, std::move(message));
  }
  void charge(std::uint64_t steps = 1) {
    if (!fuel_.spend(steps)) {
      unsupported("the grammar takes more than " + std::to_string(steps_) +
                  " steps to read; make it smaller");
    }
    if (grammar_.memory() > limits_.memory) {
      unsupported("the grammar takes more than " + std::to_string(limits_.memory) + " bytes of memory");
    }
  }

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool at_end() const { return at_ >= source_.size(); }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }
  std::string found() const {
    if (at_end()) return "the end of the grammar";
    const char c = peek();
    if (c == '\n' || c == '\r') return "the end of the line";
    if (c >= ' ' && c <= '~') return '"' + std::string(1, c) + '"';
    std::array<char, 16> name{};
    std::snprintf(name.data(), name.size(), "U+%04X", static_cast<unsigned>(decode().first));
    return name.data();
  }

  void skip_space(bool newlines) {
    while (!at_end()) {
      charge();
      if (peek() == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
      } else if (peek() == ' ' || peek() == '\t' || (newlines && (peek() == '\n' || peek() == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const std::size_t begin = at_;
    while (!at_end() && is_name(peek())) ++at_;
    if (at_ == begin) invalid("expected the name of a rule, found " + found());
    if (at_ - begin > kLongestName) {
      const std::size_t size = at_ - begin;
      at_ = begin;
      unsupported("the name of a rule has " + std::to_string(size) + " bytes; the limit is " +
                  std::to_string(kLongestName));
    }
    return source_.substr(begin, at_ - begin);
  }

  RuleId rule_named(std::string_view name, std::size_t where) {
    charge(10 + name.size() / 8);
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    charge(20);
    const RuleId rule = grammar_.declare(std::string(name));
    rules_.emplace(name, rule);
    uses_.push_back(where);
    return rule;
  }

  // name ::= alternatives, to the end of the line.
  void rule() {
    const std::size_t begin = at_;
    const RuleId which = rule_named(name(), begin);
    skip_space(false);
    if (!source_.substr(at_).starts_with("::=")) invalid("expected \"::=\", found " + found());
    at_ += 3;
    skip_space(true);
    grammar_.define(which, alternatives(0));
    if (!at_end() && peek() != '\n' && peek() != '\r')
      invalid("expected the end of the rule, found " + found());
    skip_space(true);
  }

  NodeId alternatives(std::uint32_t depth) {
    if (depth > limits_.depth) {
      unsupported("groups are nested more than " + std::to_string(limits_.depth) + " deep");
    }
    std::vector<NodeId> out{sequence(depth)};
    while (take('|')) {
      skip_space(true);
      out.push_back(sequence(depth));
    }
    return out.size() == 1 ? out[0] : grammar_.choice(out);
  }

  NodeId sequence(std::uint32_t depth) {
    std::vector<NodeId> out;
    while (!at_end()) {
      charge();
      if (const auto symbol = this->symbol(depth)) {
        charge(10);  // the memory of a node
        out.push_back(*symbol);
      } else if (const auto times = repetition()) {
        if (out.empty()) invalid("a repetition has nothing before it to repeat");
        out.back() = grammar_.repeat(out.back(), times->first, times->second);
      } else {
        break;
      }
      skip_space(depth > 0);
    }
    return out.size() == 1 ? out[0] : grammar_.sequence(out);
  }

  std::optional<NodeId> symbol(std::uint32_t depth) {
    if (peek() == '"') return literal();
    if (peek() == '[') return character_class();
    if (take('.')) return any_character();
    if (peek() == '<') unsupported("tokens by their names (<...>) are not supported in grammars");
    if (is_name(peek())) {
      const std::size_t begin = at_;
      return grammar_.rule(rule_named(name(), begin));
    }
    if (!take('(')) return std::nullopt;
    skip_space(true);
    const NodeId inner = alternatives(depth + 1);
    if (!take(')')) invalid("expected \")\", found " + found());
    return inner;
  }

  NodeId any_character() {
    if (!any_) any_ = one_of(CodePointSet::all());
    return *any_;
  }

  NodeId one_of(const CodePointSet& set) {
    const auto& ranges = set.ranges();
    charge(20 + 40 * ranges.size());  // to spell them
    if (!ranges.empty() && ranges.back().to < 0x80) {
      ByteSet bytes;
      for (const auto& [from, to] : ranges)
        for (char32_t c = from; c <= to; ++c) bytes.set(c);
      return grammar_.bytes(bytes);
    }
    auto character = grammar::one_of(set, Spelling::utf8, {&fuel_});
    charge();
    if (!character)
      unsupported("a class of characters has too many ranges: " + std::to_string(ranges.size()));
    return grammar_.dfa(std::move(*character));
  }

  // How often the symbol before is repeated.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> repetition() {
    if (take('*')) return {{0, kUnbounded}};
    if (take('+')) return {{1, kUnbounded}};
    if (take('?')) return {{0, 1}};
    const std::size_t begin = at_;
    if (!take('{')) return std::nullopt;
    skip_space(true);
    const std::uint32_t least = number();
    std::uint32_t most = least;
    skip_space(true);
    if (take(',')) {
      skip_space(true);
      most = is_digit(peek()) ? number() : kUnbounded;
      skip_space(true);
    }
    if (!take('}')) invalid("expected \"}\", found " + found());
    if (most < least) {
      at_ = begin;
      invalid("a repetition has at least " + std::to_string(least) + " and at most " + std::to_string(most) +
              " times");
    }
    return {{least, most}};
  }

  std::uint32_t number() {
    if (!is_digit(peek())) invalid("expected a number, found " + found());
    std::uint64_t out = 0;
    for (; is_digit(peek()); ++at_) {
      out = out * 10 + static_cast<std::uint64_t>(peek() - '0');
      if (out >= kUnbounded) invalid("a repetition's number is over " + std::to_string(kUnbounded - 1));
    }
    return static_cast<std::uint32_t>(out);
  }

  NodeId literal() {
    const std::size_t begin = at_++;
    std::string text;
    while (!take('"')) {
      if (at_end()) {
        at_ = begin;
        invalid("a string has no closing quote");
      }
      charge();
      append_character(text, character());
    }
    return grammar_.text(text);
  }

  NodeId character_class() {
    const std::size_t begin = at_++;
    const bool negated = take('^');
    std::vector<CodePointRange> ranges;
    while (!take(']')) {
      if (at_end()) {
        at_ = begin;
        invalid("a class of characters has no closing bracket");
      }
      charge();
      const std::size_t range = at_;
      const char32_t from = character();
      char32_t to = from;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        if (at_end()) continue;
        to = character();
      }
      if (to < from) {
        at_ = range;
        invalid("a range of characters ends before it begins");
      }
      ranges.push_back({from, to});
    }
    if (ranges.empty() && !negated) {
      at_ = begin;
      invalid("a class of characters is empty");
    }
    charge(5 * ranges.size());  // to sort them
    const CodePointSet set = CodePointSet::of(std::move(ranges));
    return one_of(negated ? set.complement() : set);
  }

  // One character of a string or class, escaped or not. Precondition: not at the end.
  char32_t character() {
    if (peek() == '\\') return escape();
    const auto [value, length] = decode();
    at_ += length;
    return value;
  }

  // The character here and the number of its bytes. Precondition: not at the end.
  std::pair<char32_t, std::size_t> decode() const {
    const auto first = static_cast<unsigned char>(peek());  // the source is valid UTF-8
    if (first < 0x80) return {first, 1};
    const unsigned more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    char32_t out = first & (0x3FU >> more);
    for (unsigned i = 1; i <= more; ++i) out = out << 6 | (static_cast<unsigned char>(peek(i)) & 0x3FU);
    return {out, more + 1};
  }

  char32_t escape() {
    const std::size_t begin = at_++;
    const char kind = peek();
    ++at_;
    switch (kind) {
      case 'x':
        return code_point(begin, 2);
      case 'u':
        return code_point(begin, 4);
      case 'U':
        return code_point(begin, 8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
        return static_cast<char32_t>(kind);
      default:
        at_ = begin;
        invalid("an unknown escape; known are \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\]");
    }
  }

  char32_t code_point(std::size_t begin, unsigned digits) {
    char32_t out = 0;
    for (unsigned i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const bool upper = c >= 'A' && c <= 'F', lower = c >= 'a' && c <= 'f';
      if (!is_digit(c) && !upper && !lower)
        invalid("expected " + std::to_string(digits) + " hexadecimal digits");
      out = out << 4 | static_cast<char32_t>(is_digit(c) ? c - '0' : (upper ? c - 'A' : c - 'a') + 10);
    }
    if (out > kLastCodePoint || (out >= 0xD800 && out <= 0xDFFF)) {
      at_ = begin;
      invalid("an escape stands for no character: surrogates and all over U+10FFFF are none");
    }
    return out;
  }

  std::string_view source_;
  Fuel& fuel_;
  std::uint64_t steps_;  // of the fuel at first
  const Limits& limits_;
  std::size_t at_ = 0;
  Grammar grammar_;
  std::unordered_map<std::string_view, RuleId> rules_;
  std::vector<std::size_t> uses_;  // where each rule is used first
  std::optional<NodeId> any_;      // of all dots
};

}  // namespace

Result<Grammar> read_gbnf(std::string_view source, Fuel& fuel, const Limits& limits) {
  try {
    return Reader(source, fuel, limits).run();
  } catch (Failure& failure) {
    return std::unexpected(std::move(failure.error));
  }
}

}  // namespace flyball::grammar
