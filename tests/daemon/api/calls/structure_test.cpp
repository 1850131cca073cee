// Random words of the constraints of calls are answers whose calls their tools' schemas allow.
#include "daemon/api/calls/structure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/constrain/constraint.hpp"
#include "backends/constrain/matcher.hpp"
#include "backends/grammar/structural_tag.hpp"
#include "tests/backends/grammar/sampler.hpp"
#include "tests/daemon/api/calls/parsed.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::calls {
namespace {

constexpr std::size_t kWordBytes = 300;

std::shared_ptr<constrain::Automaton> played(const Constraint& constraint) {
  auto program = constrain::compile(constraint);
  EXPECT_TRUE(program) << (program ? "" : program.error().message + program.error().where);
  if (!program) return nullptr;
  return std::make_shared<constrain::Automaton>(
      std::make_shared<const constrain::Program>(std::move(*program)));
}

bool takes(const std::shared_ptr<constrain::Automaton>& automaton, const std::string& document) {
  constrain::Matcher at = constrain::Matcher::begin(automaton).value();
  return at.accept(document).value() && at.can_end();
}

constexpr const char* kWeather =
    R"({"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{)"
    R"("city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":9},)"
    R"("unit":{"type":"string","enum":["celsius","kelvin"]}},"required":["city"],"additionalProperties":false}}})";
constexpr const char* kSearch =
    R"({"type":"function","function":{"name":"search","parameters":{"type":"object","properties":{)"
    R"("tags":{"type":"array","items":{"$ref":"#/$defs/tag"},"maxItems":2},"exact":{"type":"boolean"},)"
    R"("where":{"type":"object","properties":{"x":{"type":["number","null"]}},"additionalProperties":false}},)"
    R"("required":["tags","exact"],"additionalProperties":false,"$defs":{"tag":{"type":"string","maxLength":5}}}}})";
constexpr const char* kNow = R"({"type":"function","function":{"name":"now"}})";

ToolSet tools(ToolSet::Choice choice, bool parallel = true, std::string named = "") {
  ToolSet out;
  out.tools = test::packed("[" + std::string(kWeather) + "," + kSearch + "," + kNow + "]");
  out.choice = choice;
  out.parallel = parallel;
  out.named = std::move(named);
  out.strict = true;
  return out;
}

class ConstrainedCallsOf : public ::testing::TestWithParam<CallFormat> {
 protected:
  // Words of the constraint, read back. Returns how many calls they have.
  std::size_t check(const ToolSet& set, const AnswerForm& form, const std::string& before, bool text_too) {
    const auto constraint = call_constraint(set, form);
    EXPECT_TRUE(constraint) << constraint.error().message;
    if (!constraint || !*constraint) return 0;
    const auto whole = played(**constraint);
    if (!whole) return 0;
    const grammar::Limits limits;
    grammar::Fuel fuel(limits.steps);
    const auto words = grammar::from_structural_tag((*constraint)->source.view(), {}, limits, fuel);
    EXPECT_TRUE(words);
    grammar::Sampler sampler(*words);
    std::size_t calls = 0;
    for (int i = 0; i < 60; ++i) {
      const testing::Case answer{
          "", form, std::make_shared<const ToolSet>(set), sampler.word(random_, kWordBytes), {}};
      EXPECT_TRUE(takes(whole, answer.text)) << answer.text;
      const Choice got = testing::parsed(answer, {});
      calls += got.calls.size();
      if (!text_too) {
        EXPECT_GE(got.calls.size(), 1U) << answer.text;
        EXPECT_EQ(got.text, "") << answer.text;
        EXPECT_TRUE(got.calls.size() == 1 || (set.parallel && set.named.empty())) << answer.text;
      }
      for (const auto& call : got.calls) {
        EXPECT_TRUE(call.complete) << answer.text;
        EXPECT_TRUE(set.named.empty() || call.name == set.named) << answer.text;
        EXPECT_TRUE(takes(arguments_of(call.name), call.arguments)) << answer.text << "\n" << call.arguments;
      }
      if (before.empty()) continue;
      EXPECT_TRUE(answer.text.contains(before)) << answer.text;
    }
    return calls;
  }

  std::shared_ptr<constrain::Automaton> arguments_of(const std::string& name) {
    const std::string tool = name == "get_weather" ? kWeather : name == "search" ? kSearch : kNow;
    const PackedJson json = test::packed(tool);
    const JsonView parameters = json.view().find("function").find("parameters");
    auto& known = arguments_[name];
    if (!known)
      known = played(parameters ? Constraint{Constraint::Kind::json_schema, PackedJson(parameters)}
                                : Constraint{Constraint::Kind::json_object, {}});
    return known;
  }

  std::mt19937 random_{7};
  std::map<std::string, std::shared_ptr<constrain::Automaton>> arguments_;
};

TEST_P(ConstrainedCallsOf, RequiredAnswersAreCalls) {
  const AnswerForm form{.calls = GetParam()};
  EXPECT_GE(check(tools(ToolSet::Choice::required), form, "", false), 60U);
  check(tools(ToolSet::Choice::required, false), form, "", false);
  check(tools(ToolSet::Choice::required, true, "search"), form, "", false);
  check(tools(ToolSet::Choice::required, false, "now"), form, "", false);
}

TEST_P(ConstrainedCallsOf, ReasoningThatHasBegunMayEndFirst) {
  if (GetParam() == CallFormat::harmony) return;  // it has its own
  const bool own = GetParam() == CallFormat::command_r7b;
  const AnswerForm form{.calls = GetParam(),
                        .reasoning = own ? ReasoningFormat::none : ReasoningFormat::think,
                        .in_reasoning = true};
  EXPECT_GE(check(tools(ToolSet::Choice::required), form, own ? "<|END_THINKING|>" : "</think>", false), 60U);
}

TEST_P(ConstrainedCallsOf, StrictCallsAmongFreeTextAreHeldToTheirSchemas) {
  const AnswerForm form{.calls = GetParam()};
  const ToolSet set = tools(ToolSet::Choice::automatic);
  using enum CallFormat;
  if (GetParam() == json || GetParam() == llama3 || GetParam() == glm4 || GetParam() == functionary_v32) {
    const auto refused = call_constraint(set, form);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature);
    EXPECT_TRUE(refused.error().message.contains("tool_choice \"required\"")) << refused.error().message;
    return;
  }
  const std::size_t calls = check(set, form, "", true);
  // Random text of harmony rarely has the header that a call is in.
  if (GetParam() != harmony) {
    EXPECT_GE(calls, 10U);
  }
  check(tools(ToolSet::Choice::automatic, false), form, "", true);
}

INSTANTIATE_TEST_SUITE_P(Formats, ConstrainedCallsOf, ::testing::ValuesIn([] {
                           std::vector<CallFormat> all;
                           for (int i = 0; i <= static_cast<int>(kLastCallFormat); ++i)
                             all.push_back(static_cast<CallFormat>(i));
                           return all;
                         }()),
                         [](const auto& each) { return std::string(testing::name_of(each.param)); });

TEST(CallConstraint, NothingIsConstrainedWhereTheModelMayDoAsItLikes) {
  ToolSet set = tools(ToolSet::Choice::automatic);
  set.strict = false;
  EXPECT_FALSE(call_constraint(set, {}).value());
  set.strict = true;
  set.choice = ToolSet::Choice::none;
  EXPECT_FALSE(call_constraint(set, {}).value());
  EXPECT_FALSE(call_constraint({}, {}).value());
}

TEST(CallConstraint, AParameterThatXmlCannotExpressNamesItsTool) {
  ToolSet set = tools(ToolSet::Choice::required);
  for (const char* parameters :
       {R"({"properties":{"s":{"type":"string","pattern":"^a"}}})", R"({"anyOf":[{}]})",
        R"({"required":["x"]})", R"({"properties":{"a>b":{"type":"string"}}})",
        R"({"properties":{"a":{"items":{"$ref":"#"}}}})", R"({"type":"array"})"}) {
    set.tools = test::packed(R"([{"type":"function","function":{"name":"odd","parameters":)" +
                             std::string(parameters) + "}}]");
    const auto refused = call_constraint(set, {.calls = CallFormat::qwen3_coder});
    ASSERT_FALSE(refused) << parameters;
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature);
    EXPECT_TRUE(refused.error().message.contains("\"odd\"")) << refused.error().message;
  }
}

}  // namespace
}  // namespace flyball::api::calls
