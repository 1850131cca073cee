// Both halves together: grammars of JSON Schema played by the automaton, and documents made by their masks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/constrain/mask.hpp"
#include "backends/grammar/json_schema.hpp"
#include "config/json_reader.hpp"
#include "tests/backends/constrain/mask_walk.hpp"
#include "tests/backends/constrain/vocabularies.hpp"
#include "tests/backends/grammar/schema_cases.hpp"

namespace flyball::constrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongest = 300;  // tokens of a walk; longer ones are left

Result<grammar::Grammar> grammar_of(const Json& schema) {
  const auto packed = read_packed(schema.dump());
  if (!packed) return pass(packed);
  const grammar::Limits limits;
  grammar::Fuel fuel(limits.steps);
  return grammar::from_json_schema(packed->view(), {}, limits, fuel);
}

std::shared_ptr<Automaton> play(const grammar::Grammar& grammar) {
  const grammar::Limits limits;
  grammar::Fuel fuel(limits.steps);
  auto program = compile(grammar, fuel, limits);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)));
}

bool takes(const std::shared_ptr<Automaton>& automaton, const std::string& document) {
  Matcher at = Matcher::begin(automaton).value();
  return at.accept(document).value() && at.can_end();
}

TEST(SchemaWalk, AcceptsValidDocumentsAndNoOthers) {
  for (const auto& each : grammar::schema_cases()) {
    const auto made = grammar_of(each["schema"]);
    ASSERT_TRUE(made.has_value()) << each["schema"].dump() << made.error().message;
    const auto automaton = play(*made);
    for (const auto& document : each["valid"])
      EXPECT_TRUE(takes(automaton, document.dump(2))) << each["schema"].dump() << "\n" << document.dump(2);
    for (const auto& document : each["invalid"])
      EXPECT_FALSE(takes(automaton, document.dump())) << each["schema"].dump() << "\n" << document.dump();
  }
}

// The documents themselves are judged by another recognizer of the same grammar, and the grammar's words by
// tests/backends/grammar.
TEST(SchemaWalk, MasksLeadToDocumentsOfTheGrammar) {
  testing::Random random(7);
  testing::Tokens tokens = testing::json_tokens(random);
  tokens.forbidden.clear();  // every byte is a token, so that no mask is empty
  const auto vocabulary = tokens.vocabulary();
  std::size_t ended = 0;
  for (const auto& each : grammar::schema_cases()) {
    const auto made = grammar_of(each["schema"]);
    ASSERT_TRUE(made.has_value());
    const auto automaton = play(*made);
    Masks masks(automaton, vocabulary);
    for (int i = 0; i < 3; ++i) {
      const auto walk = testing::mask_walk(automaton, masks, tokens, random, kLongest);
      ASSERT_TRUE(walk.has_value()) << each["schema"].dump() << walk.error().message;
      if (!walk->ended) continue;
      ++ended;
      EXPECT_TRUE(testing::accepts(*made, walk->document)) << each["schema"].dump() << "\n" << walk->document;
    }
  }
  EXPECT_GT(ended, 1500U);
}

}  // namespace
}  // namespace flyball::constrain
