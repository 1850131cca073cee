#include "backends/grammar/regex_syntax.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "backends/grammar/grammar.hpp"
#include "config/utf8.hpp"

namespace flyball::grammar {
namespace {

constexpr std::uint32_t kMostRepeats = 1'000'000;  // more are refused by their number, before any work
constexpr std::string_view kPunctuation = "^$\\.*+?()[]{}|/-!\"#%&',:;<=>@_`~ ";

CodePointSet digits() {
  return CodePointSet::of({{'0', '9'}});
}
CodePointSet word_characters() {
  return CodePointSet::of({{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}});
}
CodePointSet line_ends() {
  return CodePointSet::of({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
}
CodePointSet blanks() {
  return CodePointSet::of({{'\t', '\r'},
                           {' ', ' '},
                           {0xA0, 0xA0},
                           {0x1680, 0x1680},
                           {0x2000, 0x200A},
                           {0x2028, 0x2029},
                           {0x202F, 0x202F},
                           {0x205F, 0x205F},
                           {0x3000, 0x3000},
                           {0xFEFF, 0xFEFF}});
}

// The meaning of a backslash: one code point, or a class of them.
struct Escape {
  CodePointSet set;
  std::optional<char32_t> single;
};

class Parser {
 public:
  Parser(std::string_view pattern, std::uint32_t depth) : text_(pattern), depth_(depth) {}

  Result<RegexTree> run() {
    auto root = choice(0);
    if (!root) return pass(root);
    if (at_ < text_.size()) return refuse("has a ) without its (", at_);
    tree_.root = *root;
    return std::move(tree_);
  }

 private:
  using Kind = RegexNode::Kind;

  std::unexpected<Error> refuse(std::string what, std::size_t at,
                                ErrorCode code = ErrorCode::invalid_value) const {
    const std::string where = "byte " + std::to_string(at);
    return fail(code, "The pattern " + std::move(what) + " at " + where + ".", {}, where);
  }
  std::unexpected<Error> unsupported(std::string_view what, std::size_t at) const {
    return refuse("has " + std::string(what) + ", which no finite automaton is made for,", at,
                  ErrorCode::unsupported_feature);
  }

  bool is_at(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!is_at(text)) return false;
    at_ += text.size();
    return true;
  }
  // The pattern is valid UTF-8.
  char32_t next() {
    const auto lead = static_cast<std::uint8_t>(text_[at_++]);
    if (lead < 0x80) return lead;
    unsigned more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    char32_t c = lead & (0x3F >> more);
    for (; more > 0; --more) c = c << 6 | (static_cast<std::uint8_t>(text_[at_++]) & 0x3F);
    return c;
  }

  std::uint32_t add(RegexNode node) {
    tree_.nodes.push_back(node);
    return static_cast<std::uint32_t>(tree_.nodes.size() - 1);
  }
  std::uint32_t add(Kind kind, const std::vector<std::uint32_t>& children) {
    if (children.size() == 1) return children[0];
    const auto first = static_cast<std::uint32_t>(tree_.children.size());
    tree_.children.insert(tree_.children.end(), children.begin(), children.end());
    return add({.kind = kind, .first = first, .count = static_cast<std::uint32_t>(children.size())});
  }
  std::uint32_t add(CodePointSet set) {
    tree_.sets.push_back(std::move(set));
    return add({.kind = Kind::set, .first = static_cast<std::uint32_t>(tree_.sets.size() - 1)});
  }

  Result<std::uint32_t> choice(std::uint32_t depth) {
    std::vector<std::uint32_t> branches;
    do {
      auto branch = sequence(depth);
      if (!branch) return branch;
      branches.push_back(*branch);
    } while (take("|"));
    return add(Kind::choice, branches);
  }

  Result<std::uint32_t> sequence(std::uint32_t depth) {
    std::vector<std::uint32_t> parts;
    while (at_ < text_.size() && !is_at("|") && !is_at(")")) {
      const std::size_t begin = at_;
      if (take("^")) {
        parts.push_back(add({.kind = Kind::begin}));
      } else if (take("$")) {
        parts.push_back(add({.kind = Kind::end}));
      } else if (is_at("(?=") || is_at("(?!")) {
        auto ahead = lookahead(depth);
        if (!ahead) return ahead;
        parts.push_back(*ahead);
      } else {
        auto part = atom(depth);
        if (!part) return part;
        parts.push_back(*part);
        if (auto ok = quantifier(parts.back()); !ok) return pass(ok);
        continue;
      }
      if (at_ < text_.size() && std::string_view("*+?").find(text_[at_]) != std::string_view::npos)
        return refuse("repeats an anchor or a lookahead", begin);
    }
    return add(Kind::sequence, parts);
  }

  Result<void> quantifier(std::uint32_t& part) {
    std::uint32_t least = 0, most = kUnbounded;
    const std::size_t begin = at_;
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (is_at("{")) {
      const auto counts = braces();
      if (!counts) return {};  // a brace that stands for itself
      std::tie(least, most) = *counts;
      if (most < least) return refuse("repeats from more to fewer", begin);
      if (least > kMostRepeats || (most != kUnbounded && most > kMostRepeats))
        return refuse("repeats more than " + std::to_string(kMostRepeats) + " times", begin,
                      ErrorCode::unsupported_value);
    } else {
      return {};
    }
    if (take("+")) return unsupported("a possessive quantifier", begin);
    take("?");  // lazy: the same texts
    if (at_ < text_.size() && std::string_view("*+?").find(text_[at_]) != std::string_view::npos)
      return refuse("repeats a quantifier", at_);
    tree_.children.push_back(part);
    part = add({.kind = Kind::repeat,
                .first = static_cast<std::uint32_t>(tree_.children.size() - 1),
                .count = 1,
                .least = least,
                .most = most});
    return {};
  }

  // {m}, {m,} or {m,n}; else nothing is taken.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> braces() {
    const std::size_t begin = at_++;
    const auto least = count();
    auto most = least;
    if (least && take(",")) most = is_at("}") ? kUnbounded : count();
    if (least && most && take("}")) return std::pair(*least, *most);
    at_ = begin;
    return std::nullopt;
  }
  std::optional<std::uint32_t> count() {
    std::optional<std::uint32_t> n;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      n = std::min(n.value_or(0) * 10 + static_cast<std::uint32_t>(text_[at_] - '0'), kMostRepeats + 1);
    return n;
  }

  Result<std::uint32_t> atom(std::uint32_t depth) {
    const std::size_t begin = at_;
    if (take("(")) return group(depth, begin);
    if (take("[")) return bracket(begin);
    if (take(".")) return add(line_ends().complement());
    if (std::string_view("*+?").find(text_[at_]) != std::string_view::npos)
      return refuse("has a quantifier behind nothing", begin);
    if (is_at("{")) {
      const bool is_count = braces().has_value();
      at_ = begin;
      if (is_count) return refuse("has a quantifier behind nothing", begin);
    }
    if (take("\\")) {
      auto escape = this->escape(false);
      if (!escape) return pass(escape);
      return add(std::move(escape->set));
    }
    const char32_t c = next();
    return add(CodePointSet::of({{c, c}}));
  }

  Result<std::uint32_t> lookahead(std::uint32_t depth) {
    const std::size_t begin = at_;
    if (depth > 0) return unsupported("lookahead within a group", begin);
    const bool positive = take("(?=");
    if (!positive) take("(?!");
    const auto inside = choice(depth + 1);
    if (!inside) return inside;
    if (!take(")")) return refuse("has a ( without its )", begin);
    tree_.children.push_back(*inside);
    return add({.kind = Kind::ahead,
                .first = static_cast<std::uint32_t>(tree_.children.size() - 1),
                .count = 1,
                .least = positive ? 1u : 0u});
  }

  Result<std::uint32_t> group(std::uint32_t depth, std::size_t begin) {
    if (depth + 1 > depth_)
      return refuse("nests groups deeper than " + std::to_string(depth_), begin,
                    ErrorCode::unsupported_value);
    if (take("?")) {
      if (is_at("<=") || is_at("<!")) return unsupported("lookbehind", begin);
      if (!take(":")) {
        take("P");  // as Python spells it
        if (!take("<")) return unsupported("a group of a kind other than (?:", begin);
        const std::size_t name = at_;
        while (at_ < text_.size() && text_[at_] != '>') ++at_;
        if (at_ == name || !take(">")) return refuse("has a group without its name", begin);
      }
    }
    auto inside = choice(depth + 1);
    if (!inside) return inside;
    if (!take(")")) return refuse("has a ( without its )", begin);
    return inside;
  }

  Result<std::uint32_t> bracket(std::size_t begin) {
    const bool negated = take("^");
    CodePointSet set;
    for (;;) {
      if (at_ >= text_.size()) return refuse("has a [ without its ]", begin);
      if (take("]")) break;
      auto low = member();
      if (!low) return pass(low);
      if (!low->single || !is_at("-") || text_.substr(at_).starts_with("-]")) {
        set.add(low->set);
        continue;
      }
      const std::size_t dash = at_++;
      if (at_ >= text_.size()) return refuse("has a [ without its ]", begin);
      auto high = member();
      if (!high) return pass(high);
      if (!high->single) return refuse("has a range up to a class", dash);
      if (*high->single < *low->single) return refuse("has a range in reverse", dash);
      set.add(CodePointSet::of({{*low->single, *high->single}}));
    }
    return add(negated ? set.complement() : std::move(set));
  }

  Result<Escape> member() {
    if (take("\\")) return escape(true);
    const char32_t c = next();
    return Escape{CodePointSet::of({{c, c}}), c};
  }

  static Escape one(char32_t c) { return {CodePointSet::of({{c, c}}), c}; }

  Result<Escape> escape(bool in_bracket) {
    const std::size_t begin = at_ - 1;
    if (at_ >= text_.size()) return refuse("ends within an escape", begin);
    const char32_t c = next();
    switch (c) {
      case 'd':
        return Escape{digits(), {}};
      case 'D':
        return Escape{digits().complement(), {}};
      case 'w':
        return Escape{word_characters(), {}};
      case 'W':
        return Escape{word_characters().complement(), {}};
      case 's':
        return Escape{blanks(), {}};
      case 'S':
        return Escape{blanks().complement(), {}};
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        if (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9')
          return unsupported("an octal escape", begin);
        return one(0);
      case 'x':
        return hexadecimal(2, begin);
      case 'u':
        return unicode(begin);
      case 'c':
        if (at_ < text_.size() && (text_[at_] | 0x20) >= 'a' && (text_[at_] | 0x20) <= 'z')
          return one(static_cast<char32_t>(text_[at_++] & 0x1F));
        return refuse("has a \\c without its letter", begin);
      case 'b':
        if (in_bracket) return one('\b');
        return unsupported("\\b", begin);
      case 'B':
        return unsupported("\\B", begin);
      case 'p':
      case 'P':
        return unsupported("a property of Unicode", begin);
      default:
        break;
    }
    if ((c >= '1' && c <= '9') || c == 'k') return unsupported("a backreference", begin);
    if (c < 0x80 && kPunctuation.find(static_cast<char>(c)) != std::string_view::npos) return one(c);
    return refuse("has an escape of unknown meaning", begin);
  }

  std::optional<char32_t> hex(unsigned digits) {
    char32_t value = 0;
    if (text_.size() - at_ < digits) return std::nullopt;
    for (unsigned i = 0; i < digits; ++i) {
      const char c = text_[at_ + i];
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<char32_t>(c - '0');
      else if (lower >= 'a' && lower <= 'f')
        value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
      else
        return std::nullopt;
    }
    at_ += digits;
    return value;
  }

  Result<Escape> hexadecimal(unsigned digits, std::size_t begin) {
    const auto value = hex(digits);
    if (!value) return refuse("has an escape without its digits", begin);
    return one(*value);
  }

  // \uXXXX, a pair of surrogates written so, or \u{X}.
  Result<Escape> unicode(std::size_t begin) {
    if (take("{")) {
      char32_t value = 0;
      std::size_t n = 0;
      for (; !is_at("}"); ++n) {
        const auto digit = hex(1);
        if (!digit || value > kLastCodePoint) return refuse("has an escape without its digits", begin);
        value = value * 16 + *digit;
      }
      if (n == 0 || value > kLastCodePoint) return refuse("has an escape without its digits", begin);
      ++at_;
      return one(value);
    }
    const auto first = hex(4);
    if (!first) return refuse("has an escape without its digits", begin);
    if (*first < 0xD800 || *first > 0xDBFF) return one(*first);
    const std::size_t behind = at_;
    if (take("\\u"))
      if (const auto second = hex(4); second && *second >= 0xDC00 && *second <= 0xDFFF)
        return one(0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00));
    at_ = behind;
    return one(*first);
  }

  const std::string_view text_;
  const std::uint32_t depth_;
  std::size_t at_ = 0;
  RegexTree tree_;
};

}  // namespace

Result<RegexTree> parse_regex(std::string_view pattern, std::uint32_t depth) {
  if (!is_utf8(pattern)) return fail(ErrorCode::invalid_value, "The pattern is not UTF-8.", {}, "byte 0");
  return Parser(pattern, depth).run();
}

}  // namespace flyball::grammar
