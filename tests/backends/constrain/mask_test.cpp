#include "backends/constrain/mask.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/constrain/safe_text.hpp"
#include "backends/grammar/gbnf.hpp"
#include "config/utf8.hpp"
#include "tests/backends/constrain/reference.hpp"
#include "tests/backends/constrain/vocabularies.hpp"

namespace flyball::constrain {
namespace {

using grammar::Grammar;
using testing::below;
using testing::Random;
using testing::Tokens;

std::shared_ptr<Automaton> automaton_of(const Grammar& grammar, AutomatonLimits limits = {}) {
  grammar::Fuel fuel(grammar::Limits{}.steps);
  auto program = compile(grammar, fuel, grammar::Limits{});
  if (!program) return nullptr;
  return std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)), limits);
}

Grammar gbnf(std::string_view source) {
  grammar::Fuel fuel(grammar::Limits{}.steps);
  auto grammar = grammar::read_gbnf(source, fuel, grammar::Limits{});
  EXPECT_TRUE(grammar.has_value()) << describe(grammar.error());
  return std::move(*grammar);
}

// Compares a mask with what the matcher says to every token by itself; the tokens that are allowed.
std::vector<TokenId> checked(Masks& masks, const Matcher& at, const Tokens& tokens) {
  std::vector<std::uint64_t> bits((tokens.bytes.size() + 63) / 64, 0xAAAA'AAAA'AAAA'AAAAU);
  const auto count = masks.fill(at, bits);
  EXPECT_TRUE(count.has_value());
  std::vector<TokenId> allowed;
  for (TokenId token = 0; token < tokens.bytes.size(); ++token) {
    const bool is_end = std::ranges::count(tokens.ends, token) > 0;
    const bool is_text =
        !is_end && std::ranges::count(tokens.forbidden, token) == 0 && !tokens.bytes[token].empty();
    bool expected = is_end && at.can_end();
    if (is_text) {
      Matcher fork = at;
      expected = *fork.accept(tokens.bytes[token]);
    }
    const bool is_set = (bits[token / 64] >> token % 64 & 1U) != 0;
    EXPECT_EQ(is_set, expected) << "token " << token << " \"" << tokens.bytes[token] << '"';
    if (is_set && is_text) allowed.push_back(token);
  }
  EXPECT_EQ(*count, allowed.size() + (at.can_end() ? tokens.ends.size() : 0));
  EXPECT_TRUE(tokens.bytes.size() % 64 == 0 || bits.back() >> tokens.bytes.size() % 64 == 0);
  return allowed;
}

// Walks at random, and checks every mask on the way.
void check_walk(const std::shared_ptr<Automaton>& automaton, const Tokens& tokens, Masks& masks,
                Random& random, int steps) {
  Matcher at = *Matcher::begin(automaton);
  for (int step = 0; step < steps; ++step) {
    const auto allowed = checked(masks, at, tokens);
    if (::testing::Test::HasFailure() || allowed.empty()) return;
    // Short tokens go deeper into the grammar.
    TokenId token = allowed[below(random, static_cast<std::uint32_t>(allowed.size()))];
    const TokenId other = allowed[below(random, static_cast<std::uint32_t>(allowed.size()))];
    if (tokens.bytes[other].size() < tokens.bytes[token].size()) token = other;
    ASSERT_TRUE(*at.accept(tokens.bytes[token]));
  }
}

constexpr std::string_view kJson = R"(
root ::= ws value
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws ::= [ \t\n]{0,20}
)";

// Strings of so many characters between bars of their own.
std::string bounded_strings(int least, int most) {
  const std::string count = '{' + std::to_string(least) + ',' + std::to_string(most) + '}';
  return "root ::= \"[\" (string (\",\" string){0,3}) \"]\"\nstring ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]" +
         count + " \"\\\"\"\n";
}

TEST(ConstrainMasks, AgreeWithMatcherOnRandomGrammars) {
  Random random(11);
  std::size_t played = 0;
  for (int round = 0; round < 1'500; ++round) {
    const auto shared = automaton_of(testing::random_grammar(random));
    if (!shared) continue;
    const Tokens tokens = testing::random_tokens(random, "abc\"z");
    const auto vocabulary = tokens.vocabulary();
    Masks masks(shared, vocabulary);
    for (int walk = 0; walk < 3; ++walk) check_walk(shared, tokens, masks, random, 8);
    ASSERT_FALSE(HasFailure()) << "round " << round;
    ++played;
  }
  EXPECT_GT(played, 500U);
}

TEST(ConstrainMasks, AgreeWithMatcherInJson) {
  Random random(3);
  for (int round = 0; round < 12; ++round) {
    const auto shared = automaton_of(gbnf(kJson));
    const Tokens tokens = testing::json_tokens(random);
    Masks masks(shared, tokens.vocabulary());
    for (int walk = 0; walk < 6; ++walk) check_walk(shared, tokens, masks, random, 40);
    ASSERT_FALSE(HasFailure()) << "round " << round;
    EXPECT_GT(masks.size(), 0U);
  }
}

TEST(ConstrainMasks, AgreeWithMatcherInStringsOfBoundedLength) {
  Random random(5);
  for (const auto& [least, most] : std::vector<std::pair<int, int>>{{0, 3},
                                                                    {0, 4},
                                                                    {0, 5},
                                                                    {2, 15},
                                                                    {0, 16},
                                                                    {0, 17},
                                                                    {10, 40},
                                                                    {0, 65'536},
                                                                    {90, 65'536},
                                                                    {60, 60}}) {
    const auto shared = automaton_of(gbnf(bounded_strings(least, most)));
    const Tokens tokens = testing::json_tokens(random);
    Masks masks(shared, tokens.vocabulary());
    for (int walk = 0; walk < 8; ++walk) check_walk(shared, tokens, masks, random, 40);
    ASSERT_FALSE(HasFailure()) << least << " to " << most;
  }
}

// Keys: any text but for its first character, and beside it names that lead to values of their own.
std::string keys_beside_names() {
  std::string names;
  for (char first = 'a'; first <= 'z'; ++first)
    for (const char* rest : {"", "me", "meé", "the"})
      names += (names.empty() ? "\"" : " | \"") + std::string(1, first) + rest + "\"";
  return "root ::= \"{\" pair (\",\" pair)* \"}\"\n"
         "pair ::= \"\\\"\" (name \"\\\":\" [0-9]+ | [^0-9\"\\\\\\x00-\\x20] [^\"\\\\\\x00-\\x1F]* "
         "\"\\\":{}\")\nname ::= " +
         names + "\n";
}

TEST(ConstrainMasks, AgreeWithMatcherInTextBesideNames) {
  Random random(17);
  const Tokens tokens = testing::json_tokens(random);
  const Grammar grammar = gbnf(keys_beside_names());
  const auto walk = [&](std::size_t memory) {
    const auto automaton = automaton_of(grammar, {.memory = memory});
    for (int i = 0; i < 3; ++i) {
      Masks masks(automaton, tokens.vocabulary());
      check_walk(automaton, tokens, masks, random, 12);
    }
    return automaton->collections();
  };
  EXPECT_EQ(walk(8U << 20U), 0U);
  // Over these bounds collections come at many points of a mask.
  std::uint64_t collections = 0;
  for (std::size_t memory = 8U << 10U; memory < 40U << 10U && !HasFailure(); memory += 256)
    collections += walk(memory);
  EXPECT_GT(collections, 100U);
}

// The longest token reaches from each count as far as the count may be taken for another one.
TEST(ConstrainMasks, SeeBoundsOfCountsFromAfar) {
  Tokens tokens;
  for (const std::size_t length : {1U, 2U, 9U, 10U}) {
    tokens.bytes.emplace_back(length, 'x');
    tokens.bytes.push_back(std::string(length - 1, 'x') + '>');
  }
  for (const auto* source : {"root ::= \"x\"{70,130} \">\"", "root ::= \"x\"{70,} \">\""}) {
    const auto shared = automaton_of(gbnf(source));
    Masks masks(shared, tokens.vocabulary());
    Matcher at = *Matcher::begin(shared);
    for (int count = 0; count < 130; ++count) {
      checked(masks, at, tokens);
      ASSERT_FALSE(HasFailure()) << count;
      ASSERT_TRUE(*at.accept("x"));
    }
    checked(masks, at, tokens);
    EXPECT_LT(masks.size(), 50U);
  }
}

TEST(ConstrainMasks, ShareMasksOfEqualSurroundings) {
  Random random(1);
  const auto shared = automaton_of(gbnf(kJson));
  const Tokens tokens = testing::json_tokens(random);
  Masks masks(shared, tokens.vocabulary());
  std::vector<std::uint64_t> bits(tokens.vocabulary()->words());
  Matcher at = *Matcher::begin(shared);
  std::size_t after_ten = 0;
  for (int depth = 0; depth < 200; ++depth) {
    ASSERT_TRUE(*at.accept(R"({"k":[)"));
    ASSERT_GT(*masks.fill(at, bits), 0U);
    if (depth == 10) after_ten = masks.size();
  }
  EXPECT_EQ(masks.size(), after_ten);
  // Far from both bounds every count has the same mask.
  const auto counted = automaton_of(gbnf(bounded_strings(0, 60'000)));
  Masks shared_masks(counted, tokens.vocabulary());
  Matcher text = *Matcher::begin(counted);
  ASSERT_TRUE(*text.accept("[\""));
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_GT(*shared_masks.fill(text, bits), 0U);
    ASSERT_TRUE(*text.accept("ab"));
  }
  EXPECT_LT(shared_masks.size(), 5U);
}

TEST(ConstrainMasks, ForgetOverTheirMemoryAndStayRight) {
  Random random(9);
  const auto shared = automaton_of(gbnf(bounded_strings(0, 50)), {.memory = 100 << 10});
  const Tokens tokens = testing::json_tokens(random);
  Masks masks(shared, tokens.vocabulary(), {.memory = 20 << 10});
  for (int walk = 0; walk < 30; ++walk) {
    check_walk(shared, tokens, masks, random, 20);
    ASSERT_FALSE(HasFailure());
    ASSERT_LE(masks.memory(), 20U << 10U);
  }
  EXPECT_GT(shared->collections(), 0U);
}

TEST(ConstrainMasks, ReportPlacesWithoutTokens) {
  Tokens tokens;
  tokens.bytes = {"a", "b", "<end>"};
  tokens.ends = {2};
  const auto shared = automaton_of(gbnf(R"(root ::= "a" "c")"));
  Masks masks(shared, tokens.vocabulary());
  Matcher at = *Matcher::begin(shared);
  std::vector<std::uint64_t> bits(1);
  EXPECT_EQ(*masks.fill(at, bits), 1U);
  EXPECT_EQ(bits[0], 0b001U);
  ASSERT_TRUE(*at.accept("a"));
  EXPECT_EQ(*masks.fill(at, bits), 0U);
  EXPECT_EQ(bits[0], 0U);
  ASSERT_TRUE(*at.accept("c"));
  EXPECT_EQ(*masks.fill(at, bits), 1U);
  EXPECT_EQ(bits[0], 0b100U);
}

TEST(ConstrainMasks, FailOnAmbiguityOverTheLimit) {
  Tokens tokens;
  tokens.bytes = {"a", std::string(200, 'a')};
  const Grammar grammar = gbnf("root ::= (\"a\" | \"aa\" | \"" + std::string(80, 'b') + "\"){0,150}");
  const auto shared = automaton_of(grammar, {.configurations = 20});
  Masks masks(shared, tokens.vocabulary());
  std::vector<std::uint64_t> bits(1);
  const auto count = masks.fill(*Matcher::begin(shared), bits);
  ASSERT_FALSE(count.has_value());
  EXPECT_EQ(count.error().code, ErrorCode::unsupported_feature);
}

TEST(ConstrainMasks, FailOverTheirLimitOfWork) {
  Tokens tokens;
  tokens.bytes = {std::string(200, '(')};
  const auto shared = automaton_of(gbnf(R"x(root ::= "(" root ")" | "x")x"));
  std::vector<std::uint64_t> bits(1);
  const Matcher at = *Matcher::begin(shared);
  const auto refused = Masks(shared, tokens.vocabulary(), {.work = 100}).fill(at, bits);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature);
  const auto filled = Masks(shared, tokens.vocabulary(), {.work = 10'000}).fill(at, bits);
  ASSERT_TRUE(filled.has_value());
  EXPECT_EQ(*filled, 1U);
}

// Tokens that close many frames have masks that hold deep stacks: they give way before an answer ends for
// them.
TEST(ConstrainMasks, GiveWayWhereTheyFillTheAutomaton) {
  Random random(7);
  Tokens tokens;
  tokens.bytes = {"(", "[", "x", "=", std::string(120, '='), std::string(64, '=')};
  const auto shared = automaton_of(gbnf(R"x(root ::= "(" root "=" | "[" root "=" | "x"?)x"),
                                   {.memory = 64 << 10, .most = 256 << 10});
  Masks masks(shared, tokens.vocabulary());
  std::vector<std::uint64_t> bits(1);
  const auto play = [&](int n) -> Result<void> {
    auto at = Matcher::begin(shared);
    for (int i = 0; i < n; ++i) {
      if (auto filled = masks.fill(*at, bits); !filled) return pass(filled);
      if (auto taken = at->accept(below(random, 2) == 0 ? "(" : "["); !taken) return pass(taken);
    }
    return {};
  };
  std::size_t failed = 0;
  for (int i = 0; i < 20; ++i) {
    failed += play(3'000) ? 0 : 1;  // as deep as the bound lets it
    const auto ordinary = play(100);
    EXPECT_TRUE(ordinary) << i << ": " << ordinary.error().message;
  }
  EXPECT_EQ(failed, 20U) << "the deep ones meet the bound";
}

// Palindromes of letters: every prefix of every token is a stack, and a set, of its own.
TEST(ConstrainMasks, ChargeForNewSets) {
  Random random(4);
  Tokens tokens;
  std::set<std::string> prefixes;
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    for (std::uint32_t n = 1 + below(random, 8); n > 0; --n) {
      text += static_cast<char>('a' + below(random, 26));
      prefixes.insert(text);
    }
    tokens.bytes.push_back(text);
  }
  std::string source = "root ::= \"!\"";
  for (char c = 'a'; c <= 'z'; ++c) {
    source += std::string(" | \"") + c + "\" root \"" + static_cast<char>(c - 'a' + 'A') + '"';
  }
  const auto fill = [&](std::uint64_t per_set) {
    const auto shared = automaton_of(gbnf(source));
    std::vector<std::uint64_t> bits(tokens.vocabulary()->words());
    return Masks(shared, tokens.vocabulary(), {.work = per_set * prefixes.size()})
        .fill(*Matcher::begin(shared), bits);
  };
  const auto refused = fill(20);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature);
  const auto filled = fill(60);
  ASSERT_TRUE(filled.has_value()) << filled.error().message;
  EXPECT_EQ(*filled, tokens.bytes.size());
}

TEST(ConstrainMasks, ChargeForCollections) {
  const auto shared = automaton_of(gbnf(R"x(root ::= "(" root ")" | "[" root "]" | "x")x"));
  Matcher at = *Matcher::begin(shared);
  ASSERT_TRUE(*at.accept(std::string(10'000, '(')));
  const std::uint64_t before = shared->work();
  shared->collect({});
  EXPECT_GT(shared->work() - before, 10'000U);
}

TEST(ConstrainMasks, CollectOnceWhereMemoryIsSpent) {
  Tokens tokens;
  tokens.bytes = {"(", "[[", "x)", ")"};
  const auto shared = automaton_of(gbnf(R"x(root ::= "(" root ")" | "[" root "]" | "x")x"),
                                   {.memory = 1 << 20, .most = 64 << 10});
  Matcher at = *Matcher::begin(shared);
  ASSERT_TRUE(*at.accept("(("));
  Random random(6);
  while (shared->memory() <= shared->limits().most) {  // garbage of answers that have ended
    Matcher other = *Matcher::begin(shared);
    for (int i = 0; i < 20 && shared->memory() <= shared->limits().most; ++i) {
      ASSERT_TRUE(*other.accept(random() % 2 == 0 ? "(" : "["));
    }
  }
  ASSERT_EQ(shared->collections(), 0U);
  std::vector<std::uint64_t> bits(1);
  const auto count = Masks(shared, tokens.vocabulary()).fill(at, bits);
  ASSERT_TRUE(count.has_value()) << count.error().message;
  EXPECT_EQ(bits[0], 0b0111U);
  EXPECT_EQ(shared->collections(), 1U);
}

// A mask looks at counts from afar, so that it may allow a token on which the matcher meets its limit; it
// never allows or forbids one against what the matcher says.
TEST(ConstrainMasks, DifferFromMatcherOnlyWhereItMeetsALimit) {
  Tokens tokens;
  for (const std::size_t length : {1U, 2U, 7U, 40U}) {
    tokens.bytes.emplace_back(length, 'a');
    tokens.bytes.push_back(std::string(length, 'a') + '!');
    tokens.bytes.push_back(std::string(length, 'a') + 'b');
  }
  const auto shared = automaton_of(gbnf(R"(root ::= ("a" | "aa"){0,5000} "!")"), {.configurations = 200});
  Masks masks(shared, tokens.vocabulary());
  Matcher at = *Matcher::begin(shared);
  std::size_t refused = 0;
  for (int i = 0; i < 500 && refused == 0; ++i) {
    std::vector<std::uint64_t> bits(1);
    const auto count = masks.fill(at, bits);
    ASSERT_TRUE(count.has_value()) << count.error().message;
    for (TokenId token = 0; token < tokens.bytes.size(); ++token) {
      Matcher fork = at;
      const auto taken = fork.accept(tokens.bytes[token]);
      if (taken) {
        ASSERT_EQ((bits[0] >> token & 1U) != 0, *taken) << i << ' ' << tokens.bytes[token];
      } else {
        ++refused;
        ASSERT_EQ(taken.error().code, ErrorCode::unsupported_feature);
        ASSERT_TRUE(taken.error().message.contains("200")) << taken.error().message;
      }
    }
    ASSERT_TRUE(at.accept("a").has_value());
  }
  EXPECT_GT(refused, 0U);  // the walk met what it is for
}

TEST(ConstrainVocabulary, SlicesTokensOfSafeText) {
  Tokens tokens;
  tokens.bytes = {"abcd",
                  "abcde",
                  std::string(16, 'x'),
                  std::string(17, 'x'),
                  "a\"b",
                  "\\",
                  "\n",
                  "\xC3",
                  "",
                  "\xF0\x9F\x98\x80\xC3\xA9 z",
                  "abcd",
                  "<end>",
                  "<other>"};
  tokens.ends = {11};
  tokens.forbidden = {12};
  const auto vocabulary = tokens.vocabulary();
  EXPECT_EQ(vocabulary->bits(0)[0], 0U);
  EXPECT_EQ(vocabulary->bits(4)[0], 0b110'0000'0001U);
  EXPECT_EQ(vocabulary->bits(5)[0], 0b110'0000'0011U);
  EXPECT_EQ(vocabulary->bits(15)[0], 0b110'0000'0011U);
  EXPECT_EQ(vocabulary->bits(16)[0], 0b110'0000'0111U);
  EXPECT_EQ(vocabulary->bits(Vocabulary::kAll)[0], 0b110'0000'1111U);
  EXPECT_EQ(vocabulary->longest(), 17U);
}

TEST(ConstrainVocabulary, KnowsSafeText) {
  Random random(2);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::uint32_t n = below(random, 5); n > 0; --n) {
      constexpr std::array<std::uint8_t, 20> kEdges{0x1F, 0x20, 0x22, 0x5C, 0x7F, 0x80, 0x8F,
                                                    0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF,
                                                    0xE0, 0xED, 0xEE, 0xF0, 0xF4, 0xF5};
      text += static_cast<char>(kEdges[below(random, 20)]);
    }
    const bool plain = std::ranges::none_of(
        text, [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
    const auto characters = safe_text::characters(text);
    ASSERT_EQ(characters.has_value(), plain && is_utf8(text));
    if (!characters) continue;
    const auto begins = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
    ASSERT_EQ(*characters, static_cast<std::size_t>(begins));
  }
}

}  // namespace
}  // namespace flyball::constrain
