// Structural tags played by the automaton: answers made by masks, read back by a parser of their own.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "backends/constrain/constraint.hpp"
#include "backends/constrain/mask.hpp"
#include "backends/grammar/structural_tag.hpp"
#include "config/json_reader.hpp"
#include "config/utf8.hpp"
#include "tests/backends/constrain/mask_walk.hpp"
#include "tests/backends/constrain/vocabularies.hpp"

namespace flyball::constrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestWalk = 80;  // tokens; longer walks are left

Constraint tag_of(const std::string& json) {
  return {Constraint::Kind::structural_tag, *read_packed(json)};
}

grammar::Grammar tag_grammar(const Constraint& tag) {
  const grammar::Limits limits;
  grammar::Fuel fuel(limits.steps);
  return grammar::from_structural_tag(tag.source.view(), {}, limits, fuel).value();
}

std::shared_ptr<Automaton> played(const Constraint& tag) {
  auto program = compile(tag);
  EXPECT_TRUE(program) << program.error().message;
  return std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)));
}

// The calls of an answer: from each '{' to the next "};" a list of integers, with free text around them.
// nullopt: the answer is none.
std::optional<int> calls_in(std::string_view answer) {
  for (int calls = 0;; ++calls) {
    const std::size_t begin = answer.find('{');
    if (begin == answer.npos) return calls;
    const std::size_t end = answer.find("};", begin);
    if (end == answer.npos) return std::nullopt;
    const auto list = Json::parse(answer.substr(begin + 1, end - begin - 1), nullptr, false);
    if (!list.is_array()) return std::nullopt;
    for (const auto& one : list)
      if (!one.is_number_integer()) return std::nullopt;
    answer.remove_prefix(end + 2);
  }
}

TEST(StructuralTagWalk, MasksLeadToAnswersOfFreeTextAndCalls) {
  const Constraint tag = tag_of(
      R"({"structures":[{"begin":"{","schema":{"type":"array","items":{"type":"integer"},"maxItems":3},)"
      R"("end":"};"}],"triggers":["{"]})");
  const auto automaton = played(tag);
  const grammar::Grammar grammar = tag_grammar(tag);
  testing::Random random(11);
  testing::Tokens tokens = testing::json_tokens(random);
  tokens.forbidden.clear();  // every byte is a token, so that no mask is empty
  Masks masks(automaton, tokens.vocabulary());
  int calls = 0, ended = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto walk = testing::mask_walk(automaton, masks, tokens, random, kLongestWalk);
    ASSERT_TRUE(walk) << walk.error().message;
    if (!walk->ended) continue;
    ++ended;
    EXPECT_TRUE(is_utf8(walk->document)) << walk->document;
    const auto found = calls_in(walk->document);
    ASSERT_TRUE(found) << walk->document;
    calls += *found;
    EXPECT_TRUE(testing::accepts(grammar, walk->document)) << walk->document;
  }
  EXPECT_GT(ended, 500);
  EXPECT_GT(calls, 20);
}

TEST(StructuralTagWalk, ATriggerAllowsItsBeginningsAlone) {
  const auto automaton =
      played(tag_of(R"({"structures":[{"begin":"<f=a>","schema":{"const":1},"end":"</f>"},)"
                    R"({"begin":"<f=bc>","schema":{"const":2},"end":"</f>"}],"triggers":["<f="]})"));
  Matcher at = Matcher::begin(automaton).value();
  EXPECT_TRUE(at.accept("free <text <f").value() && at.can_end());
  Matcher other = at;
  EXPECT_TRUE(other.accept("x <<f=").value());
  EXPECT_FALSE(other.can_end());
  ASSERT_TRUE(at.accept("=").value());
  EXPECT_FALSE(at.can_end());
  EXPECT_EQ(automaton->bytes_after(at.now()), grammar::ByteSet().set('a').set('b'));
  EXPECT_TRUE(at.accept("bc>2</f>").value() && at.can_end());
  EXPECT_FALSE(at.accept("<f=a>2").value());
}

TEST(StructuralTagWalk, AHundredToolsCompileWithinTheLimits) {
  Json structures = Json::array(), triggers = Json::array();
  for (int i = 0; i < 100; ++i) {
    const std::string begin = "<function=tool_" + std::to_string(i) + ">";
    structures.push_back({{"begin", begin},
                          {"schema",
                           {{"type", "object"},
                            {"properties",
                             {{"query", {{"type", "string"}}},
                              {"count", {{"type", "integer"}}},
                              {"key_" + std::to_string(i), {{"type", "string"}}}}},
                            {"required", {"query"}},
                            {"additionalProperties", false}}},
                          {"end", "</function>"}});
    triggers.push_back(begin);
  }
  for (const Json& all : {Json::array({"<function="}), triggers}) {
    const auto program = compile(tag_of(Json{{"structures", structures}, {"triggers", all}}.dump()));
    EXPECT_TRUE(program) << program.error().message;
  }
}

TEST(StructuralTagWalk, TheWhitespaceOfItsDocumentsIsTheConstraints) {
  Constraint tag =
      tag_of(R"({"format":{"type":"json_schema","json_schema":{"type":"array","items":{"type":"null"}}}})");
  const auto takes = [&](bool compact, const char* document) {
    tag.compact = compact;
    Matcher at = Matcher::begin(played(tag)).value();
    return at.accept(document).value() && at.can_end();
  };
  EXPECT_TRUE(takes(false, "[null, null]"));
  EXPECT_FALSE(takes(true, "[null, null]"));
  EXPECT_TRUE(takes(true, "[null,null]"));
}

TEST(StructuralTagWalk, ASourceThatIsNoObjectIsRefused) {
  const auto refused = compile({Constraint::Kind::structural_tag, *read_packed("[]")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_value);
}

}  // namespace
}  // namespace flyball::constrain
