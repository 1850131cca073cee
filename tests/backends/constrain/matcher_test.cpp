#include "backends/constrain/matcher.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backends/constrain/forced.hpp"
#include "tests/backends/constrain/reference.hpp"

namespace flyball::constrain {
namespace {

using grammar::Grammar;
using grammar::NodeId;
using grammar::RuleId;
using testing::below;
using testing::Random;

Result<Program> compiled(const Grammar& grammar, grammar::Limits limits = {}) {
  grammar::Fuel fuel(limits.steps);
  return compile(grammar, fuel, limits);
}

std::shared_ptr<Automaton> automaton(const Grammar& grammar, AutomatonLimits limits = {}) {
  auto program = compiled(grammar);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)), limits);
}

Matcher matcher(const Grammar& grammar, AutomatonLimits limits = {}) {
  return *Matcher::begin(automaton(grammar, limits));
}

bool takes(Matcher at, std::string_view word) {
  const auto taken = at.accept(word);
  EXPECT_TRUE(taken.has_value());
  return *taken && at.can_end();
}

// One rule with this body.
template <class Body>
Grammar grammar_of(Body body) {
  Grammar out;
  out.declare("root");
  out.define(RuleId{0}, body(out));
  return out;
}

NodeId byte(Grammar& grammar, char which) {
  grammar::ByteSet set;
  set.set(static_cast<std::uint8_t>(which));
  return grammar.bytes(set);
}

// (((...))) of any depth.
Grammar parentheses() {
  return grammar_of([](Grammar& g) {
    const NodeId inner = g.sequence(std::array{byte(g, '('), g.rule(RuleId{0}), byte(g, ')')});
    return g.optional(inner);
  });
}

// The bytes of a shortest way to the end.
std::string completion(Automaton& automaton, Automaton::SetId from) {
  std::map<Automaton::SetId, std::pair<Automaton::SetId, char>> came{{from, {from, 0}}};
  std::deque<Automaton::SetId> work{from};
  while (!work.empty() && came.size() < 20'000) {
    const auto at = work.front();
    work.pop_front();
    if (automaton.can_end(at)) {
      std::string out;
      for (auto id = at; id != from; id = came[id].first) out.insert(out.begin(), came[id].second);
      return out;
    }
    const auto bytes = automaton.bytes_after(at);
    for (std::size_t b = 0; b < 256; ++b) {
      if (!bytes[b]) continue;
      const auto to = automaton.next(at, static_cast<std::uint8_t>(b));
      if (came.try_emplace(to, at, static_cast<char>(b)).second) work.push_back(to);
    }
  }
  ADD_FAILURE() << "a place without a way to the end";
  return {};
}

TEST(ConstrainMatcher, AgreesWithDefinitionOnRandomGrammars) {
  Random random(7);
  std::size_t played = 0, accepted = 0, refused = 0, left_recursive = 0, empty = 0, counted = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Grammar grammar = testing::random_grammar(random);
    auto program = compiled(grammar);
    if (!program) {
      ASSERT_EQ(program.error().code, ErrorCode::invalid_value) << program.error().message;
      const bool left = program.error().message.contains("left recursion");
      ASSERT_EQ(left, testing::is_left_recursive(grammar)) << program.error().message;
      ++(left ? left_recursive : empty);
      ASSERT_TRUE(left || !testing::random_word(grammar, random).second);
      continue;
    }
    ASSERT_FALSE(testing::is_left_recursive(grammar));
    ++played;
    for (const auto& procedure : program->procedures) counted += procedure.counted ? 1 : 0;
    const auto shared = std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)));
    const auto start = Matcher::begin(shared);
    if (!start) continue;
    for (int words = 0; words < 12; ++words) {
      std::string word = testing::random_word(grammar, random).first;
      for (std::uint32_t changes = below(random, 3); changes > 0; --changes) {
        const char other = "abc\"z"[below(random, 5)];
        if (word.empty() || below(random, 2) == 0) {
          word.insert(word.begin() + below(random, static_cast<std::uint32_t>(word.size() + 1)), other);
        } else {
          word[below(random, static_cast<std::uint32_t>(word.size()))] = other;
        }
      }
      Matcher at = *start;
      bool alive = true;
      std::string prefix;
      ASSERT_EQ(at.can_end(), testing::accepts(grammar, ""));
      for (std::size_t i = 0; i < word.size() && alive; ++i) {
        const auto taken = at.accept(word.substr(i, 1));
        if (!taken) break;
        alive = *taken;
        if (!alive) break;
        prefix += word[i];
        ASSERT_EQ(at.can_end(), testing::accepts(grammar, prefix)) << prefix;
      }
      if (alive && prefix.size() < 40) {
        ASSERT_TRUE(testing::accepts(grammar, prefix + completion(*shared, at.now()))) << prefix;
      }
      ASSERT_TRUE(alive || !testing::accepts(grammar, word)) << word;
      ++(alive && at.can_end() ? accepted : refused);
    }
  }
  // The walk met every case it is for.
  EXPECT_GT(played, 500U);
  EXPECT_GT(accepted, 1'000U);
  EXPECT_GT(refused, 1'000U);
  EXPECT_GT(left_recursive, 100U);
  EXPECT_GT(empty, 10U);
  EXPECT_GT(counted, 100U);
}

TEST(ConstrainMatcher, CountsNestedFramesExactly) {
  const Matcher start = matcher(parentheses());
  for (const std::size_t depth : {0U, 1U, 2U, 500U}) {
    const std::string open(depth, '('), close(depth, ')');
    EXPECT_TRUE(takes(start, open + close));
    EXPECT_FALSE(takes(start, open + close + ")"));
    EXPECT_FALSE(takes(start, open + '(' + close));
  }
}

TEST(ConstrainMatcher, NeedsNoStackForRightRecursion) {
  const Grammar list = grammar_of([](Grammar& g) {
    const NodeId more = g.sequence(std::array{byte(g, 'a'), g.rule(RuleId{0})});
    return g.choice(std::array{more, byte(g, 'b')});
  });
  const Matcher start = matcher(list, {.frames = 8});
  EXPECT_TRUE(takes(start, std::string(100'000, 'a') + "b"));
}

TEST(ConstrainMatcher, CountsRepeatsExactly) {
  struct Case {
    std::uint32_t least, most;
    std::vector<std::size_t> in, out;
  };
  const std::vector<Case> cases{
      {0, 65'536, {0, 1, 65'535, 65'536}, {65'537}},
      {300, 300, {300}, {0, 299, 301}},
      {100, grammar::kUnbounded, {100, 101, 70'000}, {0, 99}},
      {2, 3, {2, 3}, {0, 1, 4}},
  };
  for (const auto& [least, most, in, out] : cases) {
    const Grammar grammar = grammar_of([&](Grammar& g) {
      const NodeId repeat = g.repeat(byte(g, 'x'), least, most);
      return g.sequence(std::array{g.text("<"), repeat, g.text(">")});
    });
    const Matcher start = matcher(grammar);
    for (const std::size_t n : in) EXPECT_TRUE(takes(start, "<" + std::string(n, 'x') + ">")) << n;
    for (const std::size_t n : out) EXPECT_FALSE(takes(start, "<" + std::string(n, 'x') + ">")) << n;
  }
}

TEST(ConstrainMatcher, CountsNoEmptyWords) {
  const Grammar grammar =
      grammar_of([](Grammar& g) { return g.repeat(g.optional(byte(g, 'a')), 500, 60'000); });
  const Matcher start = matcher(grammar, {.configurations = 10});
  for (const std::size_t n : {0U, 1U, 499U, 60'000U}) EXPECT_TRUE(takes(start, std::string(n, 'a'))) << n;
  EXPECT_FALSE(takes(start, std::string(60'001, 'a')));
}

TEST(ConstrainMatcher, KeepsLargeRepeatsSmall) {
  const Grammar grammar = grammar_of([&](Grammar& g) { return g.repeat(byte(g, 'x'), 5, 1'000'000'000); });
  const auto program = compiled(grammar);
  ASSERT_TRUE(program.has_value());
  EXPECT_LT(program->states.size(), 10U);
}

TEST(ConstrainMatcher, RollsBackAndForks) {
  Matcher at = matcher(parentheses());
  std::vector<Automaton::SetId> places{at.now()};
  for (const char* token : {"((", "(", "()", "))", ")"}) {
    ASSERT_TRUE(*at.accept(token));
    places.push_back(at.now());
  }
  EXPECT_TRUE(at.can_end());
  EXPECT_TRUE(at.takes_no_bytes());
  EXPECT_FALSE(*at.accept(")"));
  EXPECT_EQ(at.now(), places.back());
  const Matcher fork = at;
  EXPECT_FALSE(at.rollback(6));
  for (std::size_t n = 5; n > 0; --n) {
    Matcher back = at;
    ASSERT_TRUE(back.rollback(n));
    EXPECT_EQ(back.now(), places[5 - n]);
  }
  ASSERT_TRUE(at.rollback(2));
  EXPECT_FALSE(at.can_end());
  EXPECT_TRUE(fork.can_end());
  EXPECT_TRUE(takes(at, ")))"));
}

TEST(ConstrainMatcher, CollectsWhatNobodyHolds) {
  const auto shared = automaton(parentheses(), {.memory = 64 << 10, .frames = 4'000});
  Matcher at = *Matcher::begin(shared);
  Matcher kept = at;
  ASSERT_TRUE(*kept.accept("((("));
  for (int round = 0; round < 50; ++round) {
    const std::string open(900, '('), close(900, ')');
    Matcher deep = at;
    for (const char c : open + close) ASSERT_TRUE(*deep.accept(std::string(1, c)));
    ASSERT_TRUE(deep.can_end());
    ASSERT_LT(shared->memory(), 512U << 10U);
  }
  EXPECT_GT(shared->collections(), 1U);
  EXPECT_TRUE(takes(kept, ")))"));
  ASSERT_TRUE(kept.rollback(1));
  EXPECT_TRUE(takes(kept, "()"));
}

TEST(ConstrainMatcher, RefusesDeepNestingOverItsLimit) {
  Matcher at = matcher(parentheses(), {.frames = 100});
  const auto taken = at.accept(std::string(200, '('));
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code, ErrorCode::unsupported_feature);
  EXPECT_TRUE(taken.error().message.contains("more than 100 frames")) << taken.error().message;
  EXPECT_TRUE(takes(at, "(())"));  // it stayed where it was
}

// Nested brackets of two kinds around an x.
Grammar brackets() {
  return grammar_of([](Grammar& g) {
    const NodeId round = g.sequence(std::array{byte(g, '('), g.rule(RuleId{0}), byte(g, ')')});
    const NodeId square = g.sequence(std::array{byte(g, '['), g.rule(RuleId{0}), byte(g, ']')});
    return g.choice(std::array{round, square, byte(g, 'x')});
  });
}

TEST(ConstrainMatcher, ADeepAnswerLeavesOthersAlone) {
  const auto shared = automaton(brackets());
  {
    Matcher deep = *Matcher::begin(shared);
    std::size_t depth = 0;
    Result<bool> taken = true;
    for (; taken && depth < 100'000; ++depth) taken = deep.accept("(");
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, ErrorCode::unsupported_feature);
    EXPECT_GT(depth, 60'000U);
    // While it lives, others play on, and it stays refused.
    EXPECT_TRUE(takes(*Matcher::begin(shared), "[x]"));
    EXPECT_FALSE(deep.accept("(").has_value());
    EXPECT_TRUE(takes(*Matcher::begin(shared), "[[(x)]]"));
    ASSERT_TRUE(deep.accept("x").has_value());
  }
  EXPECT_TRUE(takes(*Matcher::begin(shared), "[x]"));
  EXPECT_TRUE(takes(*Matcher::begin(shared), "[([x])]"));
}

TEST(ConstrainMatcher, SharesItsMemoryAmongDeepAnswers) {
  const auto shared = automaton(brackets(), {.memory = 64 << 10, .most = 256 << 10});
  // Garbage never counts: a thousand answers of 1,000 frames come and go.
  Random random(5);
  const auto play = [&](Matcher& at) -> Result<bool> {
    for (int depth = 0; depth < 1'000; ++depth) {
      auto taken = at.accept(random() % 2 == 0 ? "(" : "[");
      if (!taken) return taken;
    }
    return true;
  };
  for (int answers = 0; answers < 1'000; ++answers) {
    Matcher at = *Matcher::begin(shared);
    const auto taken = play(at);
    ASSERT_TRUE(taken.has_value()) << taken.error().message;
  }
  // Answers that live share the limit; one that ends makes room.
  std::vector<Matcher> alive;
  Result<bool> taken = true;
  while (taken && alive.size() < 100) {
    alive.push_back(*Matcher::begin(shared));
    taken = play(alive.back());
  }
  ASSERT_FALSE(taken.has_value());
  EXPECT_TRUE(taken.error().message.contains(std::to_string(256 << 10))) << taken.error().message;
  EXPECT_GT(alive.size(), 1U);
  EXPECT_LT(shared->memory(), 2U * (256 << 10));
  alive.clear();
  Matcher at = *Matcher::begin(shared);
  EXPECT_TRUE(play(at).has_value());
}

TEST(ConstrainMatcher, RefusesAmbiguityOverItsLimit) {
  // Every division of the a's into ones and twos is a reading with its own count.
  const Grammar grammar = grammar_of([](Grammar& g) {
    return g.repeat(g.choice(std::array{g.text("a"), g.text("aa")}), 0, 1'000);
  });
  Matcher at = matcher(grammar, {.configurations = 50});
  const auto taken = at.accept(std::string(500, 'a'));
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code, ErrorCode::unsupported_feature);
  EXPECT_TRUE(taken.error().message.contains("more than 50 ways")) << taken.error().message;
}

TEST(ConstrainMatcher, ForcesBytesThatEveryWordHas) {
  const Grammar grammar = grammar_of([](Grammar& g) {
    const NodeId value = g.choice(std::array{g.text("true"), g.text("trace")});
    return g.sequence(std::array{g.text("{\"ok\":"), value, g.text("}"), g.optional(g.text("!"))});
  });
  Matcher at = matcher(grammar);
  EXPECT_EQ(forced(at).bytes, "{\"ok\":tr");
  EXPECT_EQ(forced(at, 3).bytes, "{\"o");
  ASSERT_TRUE(*at.accept("{\"ok\":tru"));
  EXPECT_EQ(forced(at).bytes, "e}");
  EXPECT_FALSE(forced(at).whole) << "! may follow";
  ASSERT_TRUE(*at.accept("e}"));
  EXPECT_EQ(forced(at).bytes, "");  // the word may end
  const Grammar end = grammar_of([](Grammar& g) { return g.text("yes"); });
  at = matcher(end);
  EXPECT_TRUE(forced(at).whole);
  EXPECT_FALSE(forced(at, 2).whole);
}

TEST(ConstrainMatcher, TellsOfForcedBytesThatMemoryCutsOff) {
  const Grammar grammar = grammar_of([](Grammar& g) {
    const RuleId root = g.declare("nested");
    const NodeId round = g.sequence(std::array{g.text("("), g.rule(root), g.text(")")});
    const NodeId square = g.sequence(std::array{g.text("["), g.rule(root), g.text("]")});
    const NodeId long_one = g.sequence(std::array{g.text("abcd"), g.rule(root), g.text(".")});
    g.define(root, g.choice(std::array{round, square, long_one, g.text("x")}));
    return g.rule(root);
  });
  const auto shared = automaton(grammar, {.memory = 64 << 10, .most = 256 << 10});
  Matcher at = *Matcher::begin(shared);
  ASSERT_TRUE(*at.accept("(a"));
  std::vector<Matcher> alive;
  Result<bool> taken = true;
  for (Random random(5); taken;) {
    alive.push_back(*Matcher::begin(shared));
    for (int depth = 0; taken && depth < 1'000; ++depth)
      taken = alive.back().accept(random() % 2 == 0 ? "(" : "[");
  }
  const Forced cut = forced(at);
  EXPECT_TRUE(cut.starved);
  EXPECT_EQ(cut.bytes, "bc") << "the d begins another frame";
  alive.clear();
  const Forced all = forced(at);
  EXPECT_FALSE(all.starved);
  EXPECT_EQ(all.bytes, "bcd");
}

TEST(ConstrainProgram, NamesTheCycleOfLeftRecursion) {
  Grammar grammar;
  const RuleId expr = grammar.declare("expr"), space = grammar.declare("space"),
               term = grammar.declare("term");
  grammar.define(space, grammar.repeat(grammar.text(" "), 0, 5));
  grammar.define(expr, grammar.sequence(std::array{grammar.rule(space), grammar.rule(term)}));
  const NodeId sum = grammar.sequence(std::array{grammar.rule(expr), grammar.text("+"), grammar.text("1")});
  grammar.define(term, grammar.choice(std::array{sum, grammar.text("1")}));
  const auto program = compiled(grammar);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::invalid_value);
  EXPECT_TRUE(program.error().message.ends_with(R"("expr" -> "term" -> "expr")")) << program.error().message;
}

TEST(ConstrainProgram, RefusesRulesWithoutDefinition) {
  Grammar grammar;
  grammar.declare("root");
  grammar.define(RuleId{0}, grammar.rule(grammar.declare("lost")));
  const auto program = compiled(grammar);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::invalid_value);
  EXPECT_TRUE(program.error().message.contains("\"lost\"")) << program.error().message;
  EXPECT_FALSE(compiled(Grammar{}).has_value());
}

TEST(ConstrainProgram, RefusesGrammarsWithoutWords) {
  const Grammar nothing = grammar_of([](Grammar& g) { return g.choice({}); });
  const Grammar endless = grammar_of([](Grammar& g) {
    return g.sequence(std::array{g.text("a"), g.rule(RuleId{0})});
  });
  for (const Grammar& grammar : {nothing, endless}) {
    const auto program = compiled(grammar);
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, ErrorCode::invalid_value);
  }
}

TEST(ConstrainProgram, StaysWithinFuelAndMemory) {
  // The 24th byte before the end is an a: 2^24 deterministic states.
  const Grammar grammar = grammar_of([](Grammar& g) {
    const NodeId letter = g.choice(std::array{g.text("a"), g.text("b")});
    std::vector<NodeId> parts{g.repeat(letter, 0, grammar::kUnbounded), g.text("a")};
    parts.insert(parts.end(), 23, letter);
    return g.sequence(parts);
  });
  for (const grammar::Limits limits :
       {grammar::Limits{.steps = 100'000}, grammar::Limits{.memory = 100'000}}) {
    const auto program = compiled(grammar, limits);
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, ErrorCode::unsupported_feature);
    EXPECT_TRUE(program.error().message.contains("100000")) << program.error().message;
    EXPECT_TRUE(program.error().message.contains("\"root\"")) << program.error().message;
  }
}

// 100,000 optional bytes of 200 kinds: from the first state every byte leads to a set of up to 100,000
// places.
TEST(ConstrainProgram, StopsOnceItsFuelIsSpent) {
  const Grammar grammar = grammar_of([](Grammar& g) {
    std::vector<NodeId> parts;
    for (int i = 0; i < 100'000; ++i)
      parts.push_back(g.optional(g.text(std::string(1, static_cast<char>(i % 200)))));
    return g.sequence(parts);
  });
  const auto program = compiled(grammar, {.steps = 6'000'000});
  ASSERT_FALSE(program.has_value());
  EXPECT_TRUE(program.error().message.contains("more than 6000000 steps")) << program.error().message;
}

TEST(ConstrainProgram, RepeatsOfNothingCostNothing) {
  for (const std::uint32_t times : {10'000'000U, 4'294'967'294U}) {
    const Grammar grammar = grammar_of([&](Grammar& g) {
      const NodeId nothing = g.repeat(g.text(""), times, times);
      const NodeId no_word = g.repeat(g.choice({}), 0, times);
      return g.sequence(std::array{nothing, no_word, g.text("a")});
    });
    grammar::Fuel fuel(10'000);
    auto program = compile(grammar, fuel, {});
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_TRUE(takes(
        *Matcher::begin(std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)))),
        "a"));
  }
}

TEST(ConstrainProgram, HoldsNoCopiesOfLongRuleNames) {
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  Grammar grammar;
  grammar.declare(std::string(300'000, 'n'));
  std::vector<NodeId> repeats;
  for (int i = 0; i < 1'000; ++i) repeats.push_back(grammar.repeat(grammar.text("a"), 0, 1'000));
  grammar.define(RuleId{0}, grammar.choice(repeats));
  const auto before = peak();
  EXPECT_TRUE(compiled(grammar).has_value());
  EXPECT_LT(peak() - before, 100 << 10);
}

// Rules that each need the next one, all of them choices of the first: in both orders of their definition.
TEST(ConstrainProgram, CompilesChainsOfRulesInAnyOrder) {
  constexpr int kRules = 3'000;
  for (const bool forward : {true, false}) {
    for (const bool nullable : {true, false}) {
      Grammar grammar;
      const RuleId root = grammar.declare("root");
      std::vector<RuleId> rules;
      for (int i = 0; i < kRules; ++i) rules.push_back(grammar.declare("r" + std::to_string(i)));
      std::vector<NodeId> all;
      for (int n = 0; n < kRules; ++n) {
        const int i = forward ? n : kRules - 1 - n;
        const NodeId end = grammar.text("f" + std::to_string(i));
        NodeId body = end;
        if (i + 1 < kRules) {
          const NodeId next = grammar.rule(rules[static_cast<std::size_t>(i) + 1]);
          body = nullable
                     ? grammar.choice(std::array{next, grammar.sequence(std::array{end, grammar.rule(root)})})
                     : grammar.sequence(std::array{grammar.text("a"), next, end});
        } else if (nullable) {
          body = grammar.choice(std::array{grammar.text(""), end});
        }
        grammar.define(rules[static_cast<std::size_t>(i)], body);
        all.push_back(grammar.rule(rules[static_cast<std::size_t>(i)]));
      }
      grammar.define(root, grammar.choice(all));
      const auto program = compiled(grammar);
      ASSERT_TRUE(program.has_value()) << forward << nullable << program.error().message;
    }
  }
}

TEST(ConstrainProgram, CompilesLongListsAndDeepNests) {
  const Grammar list = grammar_of([](Grammar& g) {
    std::vector<NodeId> words;
    for (int i = 0; i < 20'000; ++i) words.push_back(g.text("word" + std::to_string(i)));
    return g.choice(words);
  });
  EXPECT_TRUE(takes(matcher(list), "word19999"));
  EXPECT_FALSE(takes(matcher(list), "word20000"));
  const Grammar nest = grammar_of([](Grammar& g) {
    NodeId at = g.text("x");
    for (int i = 0; i < 200'000; ++i) at = g.sequence(std::array{at});
    return at;
  });
  EXPECT_TRUE(takes(matcher(nest), "x"));
}

}  // namespace
}  // namespace flyball::constrain
