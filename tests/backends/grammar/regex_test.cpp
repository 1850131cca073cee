#include "backends/grammar/regex.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <regex>

namespace flyball::grammar {
namespace {

using Match = RegexOptions::Match;

Result<Dfa> regex(std::string_view pattern, Match match = Match::whole, Spelling spelling = Spelling::utf8) {
  Fuel fuel(20'000'000);
  return from_regex(pattern, {.match = match, .spelling = spelling}, {&fuel});
}

struct Case {
  std::string_view pattern;
  std::vector<std::string_view> matches, others;
};

TEST(Regex, WholeTextsMatch) {
  const Case cases[] = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"a*b+c?", {"b", "aabbc"}, {"a", "bcc"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"a", "bcc"}},
      {"(ab){2,3}", {"abab", "ababab"}, {"ab", "abababab"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaaa"}, {"a"}},
      {"a{0}", {""}, {"a"}},
      {"a{,2}", {"a{,2}"}, {"a", "aa"}},
      {"(?:a|b)(c)", {"ac", "bc"}, {"c"}},
      {"(?<x>a)(?P<y>b)", {"ab"}, {"a"}},
      {"[abc]", {"a", "c"}, {"d", "ab"}},
      {"[^abc]", {"d", "é", "\n", "😀"}, {"a", ""}},
      {"[a-c-]", {"b", "-"}, {"d"}},
      {"[\\w-]", {"x", "-", "_"}, {"+"}},
      {"[]", {}, {"", "a"}},
      {"[^]", {"a", "\n"}, {""}},
      {"[\\]\\[^]", {"]", "[", "^"}, {"\\"}},
      {".", {"a", "é", "😀"}, {"\n", "\r", "\u2028", "\u2029", ""}},
      {"\\d\\D", {"1a"}, {"11", "a1"}},
      {"\\w\\W", {"_ ", "a-"}, {"--"}},
      {"\\s\\S", {" a", "\u00a0x", "\ufeffx"}, {"aa", "  "}},
      {"\\u00e9\\xe9\\u{1F600}\\ud83d\\ude00", {"éé😀😀"}, {"e"}},
      {"\\t\\n\\v\\f\\r\\0\\cA", {std::string_view("\t\n\v\f\r\0\1", 7)}, {""}},
      {"\\^\\$\\.\\*\\/\\-\\{\\}", {"^$.*/-{}"}, {""}},
      {"^a$", {"a"}, {"^a$"}},
      {"a^b", {}, {"ab", "a^b"}},
      {"(^a|b)c$", {"ac", "bc"}, {"c"}},
      {"[\U0001F600-\U0001F64F]+", {"😀😁"}, {"a"}},
      {"(a*)*", {"", "aaa"}, {"b"}},
      {"x{1}y{1,1}", {"xy"}, {"x"}},
      {"{", {"{"}, {""}},
      {"a{b}", {"a{b}"}, {"ab"}},
  };
  for (const auto& c : cases) {
    const auto dfa = regex(c.pattern);
    ASSERT_TRUE(dfa) << c.pattern << dfa.error().message;
    for (const auto text : c.matches) EXPECT_TRUE(dfa->accepts(text)) << c.pattern << " on " << text;
    for (const auto text : c.others) EXPECT_FALSE(dfa->accepts(text)) << c.pattern << " on " << text;
  }
}

TEST(Regex, LookaheadLimitsWhatFollows) {
  const Case cases[] = {
      {"(?!admin)[a-z]+", {"bob", "adm"}, {"admin", "adminx", ""}},
      {"^(?=.*[A-Z])(?=.*\\d).{3,}$", {"aB1", "1Bc"}, {"ab1", "B1", "ABC"}},
      {"(?!ab$)a.|b", {"ac", "b"}, {"ab", "a"}},
      {"a(?!b)[bc]d", {"acd"}, {"abd"}},
      {"(a|b)+(?=c)[cd](?!x).", {"abcy"}, {"abdy", "abcx", "abc"}},
      {"(?!^x|y)..", {"ax", "zz"}, {"xa", "ya"}},
      {"a(?=b)", {}, {"a", "ab"}},
      {"(?=)a(?!)|(?!)|c", {"c"}, {"a", ""}},
  };
  for (const auto& [pattern, matches, others] : cases) {
    const auto dfa = regex(pattern);
    ASSERT_TRUE(dfa) << pattern;
    for (const auto text : matches) EXPECT_TRUE(dfa->accepts(text)) << pattern << " " << text;
    for (const auto text : others) EXPECT_FALSE(dfa->accepts(text)) << pattern << " " << text;
  }
  const Case searches[] = {
      {"^(?!@@)[@a-z]+$", {"a@", "@a"}, {"@@", "@@a"}}, {"a(?=b)", {"xab"}, {"a", "xac"}},
      {"a(?!b)", {"aba", "xac"}, {"ab", "b"}},          {"(?!x)y|^z", {"xy", "z"}, {"xz", "x"}},
      {"^(?!.*--)[a-z-]*$", {"a-b", ""}, {"a--b"}},     {"b(?=c)c$", {"abc"}, {"bcd", "b"}},
  };
  for (const auto& [pattern, matches, others] : searches) {
    const auto dfa = regex(pattern, Match::search);
    ASSERT_TRUE(dfa) << pattern;
    for (const auto text : matches) EXPECT_TRUE(dfa->accepts(text)) << pattern << " " << text;
    for (const auto text : others) EXPECT_FALSE(dfa->accepts(text)) << pattern << " " << text;
  }
}

TEST(Regex, SearchFindsAMatchAnywhere) {
  const Case cases[] = {
      {"b", {"b", "abc", "\nb\n", "éb😀"}, {"", "ac"}},
      {"", {"", "x"}, {}},
      {"^b", {"bc"}, {"ab"}},
      {"b$", {"ab"}, {"bc"}},
      {"^b$", {"b"}, {"ab", "bc"}},
      {"^a|b$", {"ax", "xb"}, {"xa", "bx"}},
      {"(^|x)b", {"b", "axb"}, {"ab"}},
      {"b($|x)", {"ab", "bx"}, {"bc"}},
      {"$^", {""}, {"a"}},
      {"^$|^x+$", {"", "xx"}, {"xy"}},
  };
  for (const auto& c : cases) {
    const auto dfa = regex(c.pattern, Match::search);
    ASSERT_TRUE(dfa) << c.pattern;
    for (const auto text : c.matches) EXPECT_TRUE(dfa->accepts(text)) << c.pattern << " on " << text;
    for (const auto text : c.others) EXPECT_FALSE(dfa->accepts(text)) << c.pattern << " on " << text;
  }
}

TEST(Regex, SpellsCharactersAsJsonStringsHaveThem) {
  const auto dfa = regex("^[^a]{3}$", Match::search, Spelling::json_string);
  ASSERT_TRUE(dfa);
  EXPECT_TRUE(dfa->accepts("\\\"\\\\\\n"));
  EXPECT_TRUE(dfa->accepts("b\\u0001é"));
  EXPECT_FALSE(dfa->accepts("\"\"\""));
  EXPECT_FALSE(dfa->accepts("b\\u0062b"));
  EXPECT_FALSE(dfa->accepts("b\nb"));
}

TEST(Regex, ErrorsNameThePlace) {
  struct {
    std::string_view pattern;
    ErrorCode code;
    std::string_view where;
  } cases[] = {
      {"a((?=b)c)", ErrorCode::unsupported_feature, "byte 2"},
      {"a(x|(?!b))", ErrorCode::unsupported_feature, "byte 4"},
      {"(?=(?=b))", ErrorCode::unsupported_feature, "byte 3"},
      {"a(?=^b)", ErrorCode::unsupported_feature, "byte 0"},
      {"a(?=b", ErrorCode::invalid_value, "byte 1"},
      {"(?=b)*", ErrorCode::invalid_value, "byte 0"},
      {"(?<=a)b", ErrorCode::unsupported_feature, "byte 0"},
      {"(?<!a)b", ErrorCode::unsupported_feature, "byte 0"},
      {"(a)\\1", ErrorCode::unsupported_feature, "byte 3"},
      {"\\k<x>", ErrorCode::unsupported_feature, "byte 0"},
      {"a\\b", ErrorCode::unsupported_feature, "byte 1"},
      {"\\B", ErrorCode::unsupported_feature, "byte 0"},
      {"\\p{L}", ErrorCode::unsupported_feature, "byte 0"},
      {"(?i)a", ErrorCode::unsupported_feature, "byte 0"},
      {"a++", ErrorCode::unsupported_feature, "byte 1"},
      {"a{2000000}", ErrorCode::unsupported_value, "byte 1"},
      {"a**", ErrorCode::invalid_value, "byte 2"},
      {"*", ErrorCode::invalid_value, "byte 0"},
      {"{2}", ErrorCode::invalid_value, "byte 0"},
      {"^*", ErrorCode::invalid_value, "byte 0"},
      {"(a", ErrorCode::invalid_value, "byte 0"},
      {"a)", ErrorCode::invalid_value, "byte 1"},
      {"[a", ErrorCode::invalid_value, "byte 0"},
      {"[b-a]", ErrorCode::invalid_value, "byte 2"},
      {"[a-\\d]", ErrorCode::invalid_value, "byte 2"},
      {"a{3,2}", ErrorCode::invalid_value, "byte 1"},
      {"\\", ErrorCode::invalid_value, "byte 0"},
      {"\\u12", ErrorCode::invalid_value, "byte 0"},
      {"\\u{110000}", ErrorCode::invalid_value, "byte 0"},
      {"\\u{", ErrorCode::invalid_value, "byte 0"},
      {"\\q", ErrorCode::invalid_value, "byte 0"},
      {"(?<>a)", ErrorCode::invalid_value, "byte 0"},
      {"\xff", ErrorCode::invalid_value, "byte 0"},
  };
  for (const auto& c : cases) {
    const auto dfa = regex(c.pattern);
    ASSERT_FALSE(dfa) << c.pattern;
    EXPECT_EQ(dfa.error().code, c.code) << c.pattern << ": " << dfa.error().message;
    EXPECT_EQ(dfa.error().where, c.where) << c.pattern << ": " << dfa.error().message;
  }
}

TEST(Regex, HostilePatternsEndWithinTheirBounds) {
  const std::string deep = std::string(100'000, '(') + std::string(100'000, ')');
  const std::string_view patterns[] = {
      "(a|b)*a(a|b){30}",
      "((a{1000}){1000}){1000}",
      "(((((){1000}){1000}){1000}){1000}){1000}",
      "(.*){1,999999}",
      "(x+x+)+y",
      "a{999999}",
      "[^a]{100000}",
      "(a?){500}a{500}",
      deep,
      "((a{0,100}){0,100}){0,100}",
  };
  for (const auto pattern : patterns) {
    const auto start = std::chrono::steady_clock::now();
    const auto dfa = regex(pattern, Match::search);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << pattern.substr(0, 40);
    EXPECT_TRUE(dfa || dfa.error().code == ErrorCode::unsupported_value) << pattern.substr(0, 40);
  }
  EXPECT_TRUE(regex("(x+x+)+y"));
  EXPECT_FALSE(regex("(a|b)*a(a|b){30}"));
  EXPECT_FALSE(regex(deep));
}

// Random patterns against the standard library's own matcher, on every short word.
TEST(Regex, AgreesWithStdRegexOnRandomPatterns) {
  std::mt19937 random(3);
  std::vector<std::string> words{""};
  for (std::size_t i = 0; i < words.size() && words[i].size() < 5; ++i)
    for (const char c : {'a', 'b', 'c'}) words.push_back(words[i] + c);
  const auto pattern = [&](auto& self, int depth) -> std::string {
    const auto sub = [&] { return self(self, depth - 1); };
    switch (depth == 0 ? random() % 5 : random() % 12) {
      case 0:
        return "a";
      case 1:
        return "b";
      case 2:
        return "[ac]";
      case 3:
        return "[^a]";
      case 4:
        return ".";
      case 5:
        return "(" + sub() + "|" + sub() + ")";
      case 6:
        return "(?:" + sub() + ")*";
      case 7:
        return "(" + sub() + ")+";
      case 8:
        return "(" + sub() + ")?";
      case 9:
        return "(" + sub() + "){1,2}";
      case 10:
        return sub() + "|" + sub();
      default:
        return sub() + sub();
    }
  };
  for (int round = 0; round < 150; ++round) {
    std::string text = pattern(pattern, 3);
    if (random() % 4 == 0) text = "^" + text;
    if (random() % 4 == 0) text += "$";
    const std::regex oracle(text);
    const auto whole = regex(text), search = regex(text, Match::search);
    ASSERT_TRUE(whole && search) << text;
    for (const auto& word : words) {
      ASSERT_EQ(whole->accepts(word), std::regex_match(word, oracle)) << text << " on " << word;
      ASSERT_EQ(search->accepts(word), std::regex_search(word, oracle)) << text << " on " << word;
    }
  }
}

}  // namespace
}  // namespace flyball::grammar
