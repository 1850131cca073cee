#include "backends/grammar/automata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "backends/grammar/regex.hpp"
#include "config/utf8.hpp"

namespace flyball::grammar {
namespace {

using Words = std::set<std::string>;

Words all_words(std::string_view alphabet, std::size_t longest) {
  Words out{""};
  for (std::size_t n = 0; n < longest; ++n)
    for (const auto& word : Words(out))
      for (const char c : alphabet) out.insert(word + c);
  return out;
}

Words accepted(const Dfa& dfa, const Words& of) {
  Words out;
  for (const auto& word : of)
    if (dfa.accepts(word)) out.insert(word);
  return out;
}

Dfa texts(const Words& words, Fuel& fuel) {
  return from_texts({words.begin(), words.end()}, {&fuel}).value();
}

// From every state an accepting one is reached, unless the language is empty.
bool is_trimmed(const Dfa& dfa) {
  for (std::uint32_t s = 0; s < dfa.states.size(); ++s) {
    std::set<std::uint32_t> seen{s};
    std::vector<std::uint32_t> stack{s};
    bool ends = false;
    while (!stack.empty()) {
      const auto& state = dfa.states[stack.back()];
      stack.pop_back();
      ends |= state.accepting;
      for (std::uint32_t e = state.first; e < state.first + state.count; ++e)
        if (seen.insert(dfa.edges[e].next).second) stack.push_back(dfa.edges[e].next);
    }
    if (!ends) return dfa.states.size() == 1 && dfa.edges.empty();
  }
  return true;
}

TEST(Automata, CombineLanguagesAsSetsOfWords) {
  std::mt19937 random(1);
  const Words universe = all_words("ab", 4);
  const std::vector<std::string> pool(universe.begin(), universe.end());
  Fuel fuel(50'000'000);
  for (int round = 0; round < 200; ++round) {
    Words a, b;
    for (const auto& word : pool) {
      if (random() % 4 == 0) a.insert(word);
      if (random() % 4 == 0) b.insert(word);
    }
    const Dfa left = texts(a, fuel), right = texts(b, fuel);
    Words both, either = a, only_a;
    either.insert(b.begin(), b.end());
    for (const auto& word : a) (b.contains(word) ? both : only_a).insert(word);
    const Bound bound{&fuel};
    for (const auto& [dfa, expected] : {std::pair(intersect(left, right, bound).value(), both),
                                        std::pair(unite(left, right, bound).value(), either),
                                        std::pair(subtract(left, right, bound).value(), only_a)}) {
      ASSERT_EQ(accepted(dfa, universe), expected);
      ASSERT_TRUE(is_trimmed(dfa));
      const Dfa least = minimize(dfa, bound).value();
      ASSERT_EQ(accepted(least, universe), expected);
      ASSERT_LE(least.states.size(), dfa.states.size());
      ASSERT_EQ(is_empty(dfa), expected.empty());
    }
    const Words longer = all_words("ab", 8);
    Words joined;
    for (const auto& x : a)
      for (const auto& y : b) joined.insert(x + y);
    if (round < 10) {
      ASSERT_EQ(accepted(concatenate(left, right, bound).value(), longer), joined);
    }
  }
}

TEST(Automata, MinimizeMergesCommonEnds) {
  Fuel fuel(1'000'000);
  const Dfa dfa = minimize(texts({"monday", "tuesday", "friday"}, fuel), {&fuel}).value();
  // "day" is read by the same four states, whatever came before it.
  EXPECT_EQ(dfa.states.size(), 1u + 2 + 3 + 2 + 4);
}

TEST(Automata, TextsMayBeNoneEmptyAndRepeated) {
  Fuel fuel(1'000'000);
  EXPECT_TRUE(is_empty(from_texts({}, {&fuel}).value()));
  const Dfa dfa = from_texts({"", "a", "", "a"}, {&fuel}).value();
  EXPECT_EQ(accepted(dfa, all_words("ab", 2)), (Words{"", "a"}));
}

TEST(Automata, EndWithErrorWhereFuelOrStatesRunOut) {
  Fuel little(10), much(10'000'000);
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back(std::to_string(i));
  EXPECT_EQ(from_texts(many, {&little}).error().code, ErrorCode::unsupported_value);
  const auto states = from_texts(many, {&much, 100});
  ASSERT_FALSE(states);
  EXPECT_THAT(states.error().message, testing::HasSubstr("100 states"));
  const Dfa dfa = from_texts(many, {&much}).value();
  EXPECT_FALSE(intersect(dfa, dfa, {&little}));
  EXPECT_FALSE(intersect(dfa, dfa, {&much, 10}));
}

// Each code point that a set has is spelled by one sequence, and no byte string beside them is.
TEST(CodePoints, SpellExactlyTheMembersOfASet) {
  std::mt19937 random(2);
  const auto some = [&] {
    const unsigned bits[] = {7, 11, 16, 21};
    return std::min<char32_t>(random() & ((1u << bits[random() % 4]) - 1), kLastCodePoint);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<CodePointRange> ranges;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      const char32_t a = some(), b = some();
      ranges.push_back({std::min(a, b), std::max(a, b)});
    }
    const auto set = CodePointSet::of(ranges);
    for (const auto spelling : {Spelling::utf8, Spelling::json_string}) {
      Fuel fuel(10'000'000);
      Nfa nfa;
      const auto start = nfa.add(), end = nfa.add();
      nfa.sequences(start, spell(set, spelling), end);
      const Dfa dfa = determinize(nfa, start, end, {&fuel}).value();
      for (int i = 0; i < 200; ++i) {
        char32_t c = some();
        if (i % 2) {
          const auto& range = ranges[random() % ranges.size()];
          c = (i % 4 == 1 ? range.from : range.to) + static_cast<char32_t>(random() % 3) - 1;
        }
        if (c > kLastCodePoint || (c >= 0xD800 && c <= 0xDFFF)) continue;
        std::string text;
        if (c < 0x80)
          text = {static_cast<char>(c)};
        else if (c < 0x800)
          text = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
        else if (c < 0x10000)
          text = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                  static_cast<char>(0x80 | (c & 63))};
        else
          text = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                  static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
        ASSERT_TRUE(is_utf8(text));
        const bool is_member =
            std::ranges::any_of(ranges, [&](auto range) { return range.from <= c && c <= range.to; });
        ASSERT_EQ(dfa.accepts(spell(text, spelling)), is_member) << std::hex << static_cast<unsigned>(c);
      }
      for (int i = 0; i < 200; ++i) {
        std::string text;
        for (unsigned n = 0; n <= random() % 4; ++n) text += static_cast<char>(random());
        ASSERT_TRUE(!dfa.accepts(text) || is_utf8(text));
      }
    }
  }
}

TEST(CodePoints, SpellStringsAsJsonStringifyDoes) {
  EXPECT_EQ(spell("a\"\\\b\f\n\r\t\x01\x1f\x7f/é", Spelling::json_string),
            "a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/é");
}

TEST(Automata, ListsTheWordsOfASmallLanguage) {
  Fuel fuel(100'000);
  const Bound bound{&fuel};
  const auto words = [&](std::vector<std::string> texts, std::size_t most) {
    return words_of(*from_texts(std::move(texts), bound), most, bound);
  };
  EXPECT_EQ(*words({"abc", "b", "ab"}, 3), (std::vector<std::string>{"b", "ab", "abc"}));
  EXPECT_EQ(*words({"abc", "b", "ab"}, 2), std::nullopt);
  EXPECT_EQ(*words({}, 2), std::vector<std::string>());
  EXPECT_EQ(*words_of(*from_regex("a*b", {}, bound), 9, bound), std::nullopt);
}

}  // namespace
}  // namespace flyball::grammar
