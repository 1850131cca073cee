// Both halves together: grammars of JSON Schema played by the automaton, and documents made by their masks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/constrain/mask.hpp"
#include "backends/grammar/json_schema.hpp"
#include "config/json_reader.hpp"
#include "tests/backends/constrain/vocabularies.hpp"

namespace flyball::constrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongest = 300;  // tokens of a walk; longer ones are left

Json cases() {
  std::ifstream file(FLYBALL_SOURCE_DIR "/tests/backends/grammar/schemas.json");
  return Json::parse(file);
}

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
  for (const auto& each : cases()) {
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
  const testing::Tokens tokens = testing::json_tokens(random);
  const auto vocabulary = tokens.vocabulary();
  std::size_t ended = 0;
  for (const auto& each : cases()) {
    const auto made = grammar_of(each["schema"]);
    ASSERT_TRUE(made.has_value());
    const auto automaton = play(*made);
    Masks masks(automaton, vocabulary);
    for (int walk = 0; walk < 3; ++walk) {
      Matcher at = Matcher::begin(automaton).value();
      std::string document;
      std::vector<std::uint64_t> bits(vocabulary->words());
      for (std::size_t i = 0; i < kLongest; ++i) {
        const std::size_t n = masks.fill(at, bits).value();
        ASSERT_GT(n, 0U) << each["schema"].dump() << "\n" << document;
        const bool may_end = (bits[tokens.ends[0] / 64] >> (tokens.ends[0] % 64) & 1U) != 0;
        ASSERT_EQ(may_end, at.can_end()) << document;
        if (may_end && (n == tokens.ends.size() || testing::below(random, 3) == 0)) {
          ++ended;
          EXPECT_TRUE(testing::accepts(*made, document)) << each["schema"].dump() << "\n" << document;
          break;
        }
        std::vector<TokenId> allowed;
        for (std::size_t t = 0; t < tokens.bytes.size(); ++t)
          if ((bits[t / 64] >> (t % 64) & 1U) != 0 && std::ranges::find(tokens.ends, t) == tokens.ends.end())
            allowed.push_back(static_cast<TokenId>(t));
        ASSERT_FALSE(allowed.empty());
        const std::string& next =
            tokens.bytes[allowed[testing::below(random, static_cast<std::uint32_t>(allowed.size()))]];
        ASSERT_TRUE(at.accept(next).value()) << each["schema"].dump() << "\n" << document << " + " << next;
        document += next;
      }
    }
  }
  EXPECT_GT(ended, 400U);
}

}  // namespace
}  // namespace flyball::constrain
