#include "backends/grammar/gbnf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backends/constrain/matcher.hpp"
#include "backends/grammar/automata.hpp"
#include "backends/grammar/choice_list.hpp"
#include "config/utf8.hpp"

namespace flyball::grammar {
namespace {

Result<Grammar> read(std::string_view source, const Limits& limits = {}) {
  Fuel fuel(limits.steps);
  return read_gbnf(source, fuel, limits);
}

constrain::Matcher matcher(const Grammar& grammar) {
  Fuel fuel(Limits{}.steps);
  auto program = constrain::compile(grammar, fuel, Limits{});
  EXPECT_TRUE(program.has_value()) << program.error().message;
  auto shared = std::make_shared<const constrain::Program>(std::move(*program));
  return *constrain::Matcher::begin(std::make_shared<constrain::Automaton>(std::move(shared)));
}

bool takes(constrain::Matcher at, std::string_view word) {
  return *at.accept(word) && at.can_end();
}

TEST(Gbnf, ReadsWords) {
  struct Case {
    const char* source;
    std::vector<std::string> in, out;
  };
  const std::vector<Case> cases{
      {R"(root ::= "a" "b" | "c")", {"ab", "c"}, {"", "a", "abc"}},
      {"root ::= a\na ::= \"x\" b\nb ::= \"y\"", {"xy"}, {"x", "y"}},
      {R"(root ::= [a-c]+ [^a-c]? "-"*)", {"a", "abcd", "ad--", "b\xC3\xA9-"}, {"", "d", "add"}},
      {R"(root ::= "\x41\u00e9\U0001F600\n\t\r\\\"\[\]")", {"A\xC3\xA9\xF0\x9F\x98\x80\n\t\r\\\"[]"}, {"A"}},
      {R"(root ::= [\x41-\x43\]\-x-])", {}, {}},
      {R"(root ::= [a-])", {"a", "-"}, {"b"}},
      {R"(root ::= [\[\]"]{2})", {"[]", "\"]"}, {"[", "[[["}},
      {R"(root ::= ("a" | "b" ("c" | ))+)", {"a", "bcb", "ba"}, {"", "c"}},
      {R"(root ::= "a"{2} "b"{1,3} "c"{2,} "d"{0,1})", {"aabcc", "aabbbccccd"}, {"abcc", "aabbbbcc", "aabc"}},
      {R"(root ::= "ab"{ 2 , 3 })", {"abab", "ababab"}, {"ab", "abb"}},
      {R"(root ::= "a"?? "b"*+)", {"", "a", "bb"}, {"aa"}},
      {"# says\nroot ::= # to the end of the line\n  \"a\" |\n  \"b\" # more\n\nx ::= \"c\"\n",
       {"a", "b"},
       {"c"}},
      {"root ::= (\"a\"\n  \"b\"\n)\r\n", {"ab"}, {"a"}},
      {"root ::= \"a\" |\nx ::= \"b\"", {}, {}},
      {R"(root ::= )", {""}, {"a"}},
      {"root ::= \"a\n\"", {"a\n"}, {"a"}},
      {"root ::=\n  \"{\" (\n    ws [a-z] |\n    \"-\" # a dash\n  )* \"}\" ws\nws ::= | \" \" | \"\\n\" [ "
       "\\t]{0,20}\n",
       {"{}", "{ a-\n\t z} "},
       {"{  a}"}},
      {R"(root ::= "" | "a")", {"", "a"}, {"b"}},
      {"root ::= \"a\"\nroot ::= \"b\"", {"b"}, {"a"}},
      {R"(root ::= .{2})", {"ab", "\xC3\xA9\n", "\xF4\x8F\xBF\xBF\xEF\xBF\xBF"}, {"a", "abc", "\xC3\xA9"}},
      {R"x(root ::= "(" root ")" | "x")x", {"x", "((x))"}, {"(x", "x)"}},
      {"root ::= \"\xC3\xA9\" [\xC3\xA0-\xC3\xBF]", {"\xC3\xA9\xC3\xA8"}, {"\xC3\xA9\xC2\xA0"}},
  };
  for (const auto& [source, in, out] : cases) {
    const auto grammar = read(source);
    if (in.empty()) {
      EXPECT_FALSE(grammar.has_value()) << source;
      continue;
    }
    ASSERT_TRUE(grammar.has_value()) << source << ": " << describe(grammar.error());
    for (const auto& word : in) EXPECT_TRUE(takes(matcher(*grammar), word)) << source << " takes " << word;
    for (const auto& word : out)
      EXPECT_FALSE(takes(matcher(*grammar), word)) << source << " refuses " << word;
  }
}

TEST(Gbnf, RefusesWithPlace) {
  struct Case {
    const char *source, *message, *where;
  };
  const std::vector<Case> cases{
      {"", "no rule \"root\"", "line 1, column 1"},
      {"a ::= \"b\"", "no rule \"root\"", "line 1, column 1"},
      {"root ::= b", "\"b\" has no definition", "line 1, column 10"},
      {"root ::= \"a\"\n  c := \"b\"", "expected \"::=\"", "line 2, column 5"},
      {"root ::= \"a", "no closing quote", "line 1, column 10"},
      {"root ::= [a", "no closing bracket", "line 1, column 10"},
      {"root ::= [a-", "no closing bracket", "line 1, column 10"},
      {"root ::= []", "is empty", "line 1, column 10"},
      {"root ::= [z-a]", "ends before it begins", "line 1, column 11"},
      {"root ::= (\"a\"", "expected \")\"", "line 1, column 14"},
      {"root ::= \"a\")", "expected the end of the rule", "line 1, column 13"},
      {"root ::= *", "nothing before it", "line 1, column 11"},
      {"root ::= \"a\"{3,2}", "at least 3 and at most 2", "line 1, column 13"},
      {"root ::= \"a\"{}", "expected a number", "line 1, column 14"},
      {"root ::= \"a\"{2", "expected \"}\"", "line 1, column 15"},
      {"root ::= \"a\"{99999999999}", "over 4294967294", "line 1, column 23"},
      {"root ::= \"\\q\"", "unknown escape", "line 1, column 11"},
      {"root ::= \"\\", "unknown escape", "line 1, column 11"},
      {"root ::= \"\\u12\"", "4 hexadecimal digits", "line 1, column 15"},
      {"root ::= \"\\ud800\"", "no character", "line 1, column 11"},
      {"root ::= \"\\U00110000\"", "no character", "line 1, column 11"},
      {"root ::= a_b\na ::= \"\"", "expected the end of the rule", "line 1, column 11"},
      {"\"a\"", "name of a rule", "line 1, column 1"},
      {"root ::= <think>", "not supported", "line 1, column 10"},
      {"root ::= \"\xC3\"", "UTF-8", "line 1, column 1"},
      {"root ::= \"a\" \xC3\xA9", "found U+00E9", "line 1, column 14"},
      {"root ::= (\xF0\x9F\x98\x80", "found U+1F600", "line 1, column 11"},
      {"root ::= \"a\" \x7F", "found U+007F", "line 1, column 14"},
      {"root ::= \"a\" \x01", "found U+0001", "line 1, column 14"},
  };
  for (const auto& [source, message, where] : cases) {
    const auto grammar = read(source);
    ASSERT_FALSE(grammar.has_value()) << source;
    EXPECT_TRUE(grammar.error().message.contains(message)) << source << ": " << grammar.error().message;
    EXPECT_EQ(grammar.error().where, where) << source;
  }
}

TEST(Gbnf, StaysWithinItsLimits) {
  std::string nested = "root ::= ";
  for (int i = 0; i < 100'000; ++i) nested += '(';
  const std::string list = "root ::= " + std::string(5'000, '.');
  for (const auto& refused : {read(nested), read(list, {.steps = 1'000}), read(list, {.memory = 10'000}),
                              read(list, {.text = 100})}) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature) << refused.error().message;
  }
  EXPECT_TRUE(read("root ::= ((((\"a\"))))").has_value());
}

// Sources that ask for much work in few bytes.
TEST(Gbnf, EndsHostileGrammarsByTheFuel) {
  const auto many = [](std::string_view begin, int times, const auto& part, std::string_view end) {
    std::string out(begin);
    for (int i = 0; i < times; ++i) out += part(i);
    return out + std::string(end);
  };
  const auto text = [](const char* part) { return [part](int) { return std::string(part); }; };
  const std::vector<std::string> sources{
      R"(root ::= [ab]* "a" [ab]{8}[ab]{8}[ab]{8})",
      many("root ::= \"\"", 100'000, text(" \"a\"?"), ""),
      many("root ::= \"\"", 100'000, text(" ."), ""),
      many("root ::= \"\"", 100'000, text(" [^a]"), ""),
      many("root ::= \"\"", 20'000, text(" \"\"{4294967294}"), ""),
      many("root ::= \"\"", 20'000, text(" [a-c]{0,100}"), ""),
      many(
          "root ::= (\"x\"", 5'000, [](int i) { return " | [a-z]* \"" + std::to_string(i) + '"'; }, ")*"),
      many(
          "root ::= \"\"", 60'000, [](int i) { return " | \"" + std::to_string(i * 7919) + '"'; }, ""),
      many(
          "root ::= r0", 30'000,
          [](int i) {
            return "\nr" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + " \"b\" | \"c\"";
          },
          "\nr30000 ::= \"z\""),
  };
  for (const std::string& source : sources) {
    Fuel fuel(Limits{}.steps);
    const auto grammar = read_gbnf(source, fuel, Limits{});
    if (grammar) {
      const auto program = constrain::compile(*grammar, fuel, Limits{});
      EXPECT_TRUE(program || program.error().code == ErrorCode::unsupported_feature)
          << program.error().message;
    } else {
      EXPECT_EQ(grammar.error().code, ErrorCode::unsupported_feature) << grammar.error().message;
    }
  }
}

TEST(Gbnf, CutsLongNames) {
  const std::string name(256, 'n');
  const auto undefined = read("root ::= " + name);
  ASSERT_FALSE(undefined.has_value());
  EXPECT_TRUE(undefined.error().message.contains('"' + name.substr(0, 80) + "...\""))
      << undefined.error().message;
  EXPECT_LT(undefined.error().message.size(), 150U);
  const auto left = read("root ::= " + name + "\n" + name + " ::= " + name + " \"a\" | \"b\"");
  ASSERT_TRUE(left.has_value());
  Fuel fuel(Limits{}.steps);
  const auto program = constrain::compile(*left, fuel, Limits{});
  ASSERT_FALSE(program.has_value());
  EXPECT_TRUE(program.error().message.contains("left recursion")) << program.error().message;
  EXPECT_LT(program.error().message.size(), 400U);
  const auto long_name = read("root ::= \"a\"\n" + name + "n ::= \"b\"");
  ASSERT_FALSE(long_name.has_value());
  EXPECT_EQ(long_name.error().code, ErrorCode::unsupported_feature);
  EXPECT_TRUE(long_name.error().message.contains("257")) << long_name.error().message;
  EXPECT_TRUE(long_name.error().message.contains("256")) << long_name.error().message;
  EXPECT_EQ(long_name.error().where, "line 2, column 1");
}

// Every code point, and all pairs and some triples of bytes, against the definition of UTF-8.
TEST(CodePoints, AreSpelledAsUtf8) {
  const CodePointSet ranges = CodePointSet::of(
      {{'0', '9'}, {0x7E, 0x82}, {0x7FF, 0x801}, {0xD000, 0xE001}, {0xFFF0, 0x10010}, {0x10FFFE, 0x10FFFF}});
  for (const auto& set : {ranges, ranges.complement(), CodePointSet::all()}) {
    Fuel fuel(1'000'000);
    const Dfa dfa = one_of(set, Spelling::utf8, {&fuel}).value();
    const auto is_in = [&](char32_t c) {
      return std::ranges::any_of(set.ranges(),
                                 [&](const CodePointRange& r) { return r.from <= c && c <= r.to; });
    };
    const auto check = [&](const std::string& bytes) {
      char32_t value = 0;
      const auto first = static_cast<unsigned char>(bytes[0]);
      const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
      value = length == 1 ? first : first & (0xFFU >> (length + 1));
      for (std::size_t i = 1; i < bytes.size(); ++i)
        value = value << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3FU);
      const bool expected = is_utf8(bytes) && bytes.size() == length && is_in(value);
      ASSERT_EQ(dfa.accepts(bytes), expected) << std::hex << static_cast<std::uint32_t>(value);
    };
    const auto byte = [](std::uint32_t b) { return static_cast<char>(b); };
    for (std::uint32_t a = 0; a < 256; ++a) {
      check({byte(a)});
      for (std::uint32_t b = 0; b < 256; ++b) {
        check({byte(a), byte(b)});
        for (const std::uint32_t c : {0x7FU, 0x80U, 0x81U, 0xBFU, 0xC0U}) {
          check({byte(a), byte(b), byte(c)});
          for (const std::uint32_t d : {0x7FU, 0x80U, 0xBEU, 0xBFU, 0xC0U}) {
            check({byte(a), byte(b), byte(c), byte(d)});
          }
        }
      }
    }
  }
}

TEST(Gbnf, ClassesEndWithTheFuel) {
  for (const std::uint64_t steps : {10U, 50U, 100U}) {
    Fuel fuel(steps);
    const auto grammar = read_gbnf("root ::= [^a]", fuel, Limits{});
    ASSERT_FALSE(grammar.has_value());
    EXPECT_TRUE(grammar.error().message.contains("steps")) << grammar.error().message;
  }
}

TEST(ChoiceList, TakesItsStringsOnly) {
  const std::vector<std::string> choices{"yes", "no", "yes, of course", "\"\\", "no"};
  Fuel fuel(1'000);
  const auto grammar = choice_list(choices, fuel, Limits{});
  ASSERT_TRUE(grammar.has_value());
  for (const auto& choice : choices) EXPECT_TRUE(takes(matcher(*grammar), choice));
  for (const auto* other : {"", "ye", "yes,", "yesno"}) EXPECT_FALSE(takes(matcher(*grammar), other));
}

TEST(ChoiceList, RefusesEmptyAndLongLists) {
  Fuel fuel(1'000'000);
  const auto empty = choice_list({}, fuel, Limits{});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::invalid_value);
  const std::vector<std::string> many(1'000, "choice");
  Fuel little(500);
  const auto costly = choice_list(many, little, Limits{});
  const auto large = choice_list(many, fuel, Limits{.memory = 10'000});
  const auto wordy = choice_list(many, fuel, Limits{.text = 100});
  for (const auto& [refused, limit, where] :
       {std::tuple{costly, "more than 500 steps", "choice 31"},
        std::tuple{large, "more than 10000 bytes of memory", "choice 161"},
        std::tuple{wordy, "more than 100 bytes of text", "choice 16"}}) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature);
    EXPECT_TRUE(refused.error().message.contains("1000 choices")) << refused.error().message;
    EXPECT_TRUE(refused.error().message.contains(limit)) << refused.error().message;
    EXPECT_EQ(refused.error().where, where);
  }
}

}  // namespace
}  // namespace flyball::grammar
