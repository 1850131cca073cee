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
#include "daemon/api/calls/parser.hpp"
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
    const auto whole = played((*constraint)->constraint);
    if (!whole) return 0;
    const grammar::Limits limits;
    grammar::Fuel fuel(limits.steps);
    const auto words =
        grammar::from_structural_tag((*constraint)->constraint.source.view(), {}, limits, fuel);
    EXPECT_TRUE(words);
    grammar::Sampler sampler(*words);
    std::size_t calls = 0;
    for (int i = 0; i < 60; ++i) {
      const testing::Case answer{.form = form,
                                 .tools = std::make_shared<const ToolSet>(set),
                                 .text = sampler.word(random_, kWordBytes)};
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

TEST_P(ConstrainedCallsOf, StrictCallsAmongFreeTextAreHeldToTheirSchemas) {
  const AnswerForm form{.calls = GetParam()};
  EXPECT_GE(check(tools(ToolSet::Choice::automatic), form, "", true), 10U);
  check(tools(ToolSet::Choice::automatic, false), form, "", true);
}

TEST_P(ConstrainedCallsOf, ReasoningMayComeBeforeStrictCalls) {
  if (GetParam() == CallFormat::harmony || GetParam() == CallFormat::command_r7b)
    GTEST_SKIP() << "it has reasoning of its own";
  const AnswerForm form{.calls = GetParam(), .reasoning = ReasoningFormat::think};
  check(tools(ToolSet::Choice::automatic), form, "", true);
  const auto constraint = call_constraint(tools(ToolSet::Choice::automatic), form);
  ASSERT_TRUE(constraint && *constraint);
  const auto answer = played((*constraint)->constraint);
  const std::string text = GetParam() == CallFormat::functionary_v32 ? "all\nHi" : "Hi";
  EXPECT_TRUE(takes(answer, "<think>Hm {</think>\n\n" + text));
}

// Text in JSON may spell calls of any format, and names and arguments of tools.
constexpr const char* kAnswer =
    R"({"type":"object","properties":{"said":{"enum":["<function=now></function>","a\"b",)"
    R"("<tool_call>now</tool_call>","<|channel|>commentary to=functions.now<|message|>{}<|call|>",)"
    R"("[TOOL_CALLS]now[ARGS]{}","<think>x</think>",">>>now\n{}","<|START_RESPONSE|>",)"
    R"("<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>","now\n{}"]},)"
    R"("name":{"enum":["now","search"]},"arguments":{"type":["string","null"]}},"required":["said"],)"
    R"("additionalProperties":false})";
constexpr const char* kNamed =
    R"({"type":"object","properties":{"name":{"enum":["now","search"]},"arguments":{"type":["string","null"],)"
    R"("maxLength":4},"parameters":{"type":"integer"},"and":{"type":"boolean"}},)"
    R"("required":["name"],"additionalProperties":false})";

TEST_P(ConstrainedCallsOf, AnAnswerIsTheClientsJsonOrCalls) {
  for (const ReasoningFormat reasoning : {ReasoningFormat::none, ReasoningFormat::think})
    for (const bool parallel : {true, false})
      for (const char* schema :
           {kAnswer, kNamed, R"({"type":"array","items":{"enum":["now","<tool_call>"]}})",
            R"({"enum":["now\n{}",true,12,"[TOOL_CALLS]"]})"}) {
        const AnswerForm form{.calls = GetParam(), .reasoning = reasoning};
        ToolSet set = tools(ToolSet::Choice::automatic, parallel);
        set.strict = false;
        const Constraint format{Constraint::Kind::json_schema, test::packed(schema)};
        const auto made = call_constraint(set, form, {&format, "format"});
        ASSERT_TRUE(made) << made.error().message;
        ASSERT_TRUE(*made);
        const auto object = played(format);
        const grammar::Limits limits;
        grammar::Fuel fuel(limits.steps);
        const auto words = grammar::from_structural_tag((*made)->constraint.source.view(), {}, limits, fuel);
        ASSERT_TRUE(words);
        grammar::Sampler sampler(*words);
        const auto whole = played((*made)->constraint);
        std::size_t objects = 0, called = 0;
        for (int i = 0; i < 40; ++i) {
          const testing::Case answer{.form = form,
                                     .tools = std::make_shared<const ToolSet>(set),
                                     .text = sampler.word(random_, kWordBytes),
                                     .or_json = true};
          EXPECT_TRUE(takes(whole, answer.text)) << answer.text;
          const Choice got = testing::parsed(answer, {});
          if (got.calls.empty()) {
            ++objects;
            EXPECT_TRUE(takes(object, got.text)) << answer.text << "\n" << got.text;
          } else {
            ++called;
            EXPECT_EQ(got.text, "") << answer.text;
            EXPECT_TRUE(parallel || got.calls.size() == 1) << answer.text;
          }
          for (const auto& call : got.calls) {
            EXPECT_TRUE(call.complete) << answer.text;
            EXPECT_TRUE(takes(arguments_of(call.name), call.arguments)) << answer.text;
          }
          std::vector<std::size_t> cuts;
          for (std::size_t at = 1; at < answer.text.size(); ++at) cuts.push_back(at);
          EXPECT_EQ(testing::shown(testing::parsed(answer, cuts), true), testing::shown(got, true))
              << answer.text;
        }
        EXPECT_GT(objects, 2U);
        EXPECT_GT(called, 2U);
      }
}

INSTANTIATE_TEST_SUITE_P(Formats, ConstrainedCallsOf, ::testing::ValuesIn([] {
                           std::vector<CallFormat> all;
                           for (int i = 0; i <= static_cast<int>(kLastCallFormat); ++i)
                             all.push_back(static_cast<CallFormat>(i));
                           return all;
                         }()),
                         [](const auto& each) { return std::string(text::to_string(each.param)); });

TEST(CallConstraint, NothingIsConstrainedWhereTheModelMayDoAsItLikes) {
  ToolSet set = tools(ToolSet::Choice::automatic);
  set.strict = false;
  EXPECT_FALSE(call_constraint(set, {}).value());
  set.strict = true;
  set.choice = ToolSet::Choice::none;
  EXPECT_FALSE(call_constraint(set, {}).value());
  EXPECT_FALSE(call_constraint({}, {}).value());
}

// An object that begins as a call of a format without a marker is one, and no other.
TEST(CallConstraint, JsonThatBeginsAsACallIsOne) {
  const auto set = std::make_shared<const ToolSet>(tools(ToolSet::Choice::automatic));
  const auto calls_in = [&](CallFormat format, const char* text) {
    const Choice got =
        testing::parsed({.form = {.calls = format}, .tools = set, .text = text, .or_json = true}, {});
    EXPECT_EQ(got.text, got.calls.empty() ? text : "");
    return got.calls.size();
  };
  for (const CallFormat format : {CallFormat::json, CallFormat::llama3}) {
    EXPECT_EQ(calls_in(format, R"({"name": "now", "arguments": {"a": 1}})"), 1U);
    EXPECT_EQ(calls_in(format, R"({"name": "now", "parameters": {}, "more": 2})"), 1U);
    for (const char* text :
         {R"({"name": "now"})", R"({"name": "now", "arguments": "a"})",
          R"({"name": "other", "arguments": {}})", R"({"arguments": {}, "name": "now"})",
          R"({"name": "now", "of": 1, "arguments": {}})", R"({"name": "nowhere", "arguments": {}})",
          R"([{"name":"now","arguments":{}}])", R"([{"name":"now","arguments":{}}, 5])",
          R"({"city": "Oslo"})", "{ }", "[ 1]", "{}", "[]"})
      EXPECT_EQ(calls_in(format, text), 0U) << text;
  }
  for (const CallFormat format : {CallFormat::hermes, CallFormat::granite, CallFormat::qwen3_coder})
    EXPECT_EQ(calls_in(format, R"({"name": "now", "arguments": {}})"), 0U) << text::to_string(format);
}

TEST(CallConstraint, JsonIsShownAsSoonAsItNamesNoTool) {
  const auto set = std::make_shared<const ToolSet>(tools(ToolSet::Choice::automatic));
  const auto parser = make_parser(set, {.calls = CallFormat::llama3}, "answer", true);
  AnswerEvents events;
  parser->begin_batch();
  parser->parse(R"({"name": "nowh)", false, events);
  Choice shown;
  gather(shown, events);
  EXPECT_EQ(shown.text, R"({"name": "nowh)");
}

TEST(CallConstraint, AnyObjectMayStandForCalls) {
  const Constraint format{Constraint::Kind::json_object, {}, true};
  for (int i = 0; i <= static_cast<int>(kLastCallFormat); ++i) {
    const AnswerForm form{.calls = static_cast<CallFormat>(i)};
    const auto made = call_constraint(tools(ToolSet::Choice::automatic), form, {&format, "format"});
    ASSERT_TRUE(made && *made);
    EXPECT_TRUE((*made)->constraint.compact);
    const std::string before = form.calls == CallFormat::harmony           ? "<|channel|>final<|message|>"
                               : form.calls == CallFormat::functionary_v32 ? "all\n"
                                                                           : "";
    const auto answer = played((*made)->constraint);
    EXPECT_TRUE(takes(answer, before + R"({"a":[1]})")) << text::to_string(form.calls);
    EXPECT_FALSE(takes(answer, before + "[1]")) << text::to_string(form.calls);
    EXPECT_FALSE(takes(answer, before + "Hi")) << text::to_string(form.calls);
    EXPECT_FALSE(takes(answer, "")) << text::to_string(form.calls);
  }
  const auto demanded = call_constraint(tools(ToolSet::Choice::required), {}, {&format, "format"});
  ASSERT_TRUE(demanded && *demanded);
  EXPECT_FALSE(takes(played((*demanded)->constraint), R"({"a":1})"));
}

// An error about the tag leads to the client's own field.
TEST(CallConstraint, ErrorsNameThePlaceOfTheSchema) {
  ToolSet set = tools(ToolSet::Choice::automatic);
  set.tools = test::packed(
      R"([{"type":"function","function":{"name":"a","parameters":{"properties":{"x":{"type":"integer"}}}}},)"
      R"({"type":"function","function":{"name":"b","parameters":{"properties":{"y/z":{"$ref":"#/$defs/d"}},)"
      R"("$defs":{"d":{"type":"integer","multipleOf":0.1234567891234567}}}}}])");
  set.positions = {{2}, {5}};
  set.schema_member = "input_schema";
  const Constraint fine{Constraint::Kind::json_object, {}},
      odd{Constraint::Kind::json_schema, test::packed(R"({"properties":{"p":{"pattern":"("}}})")};
  const auto place = [&](CallFormat format, const Constraint& json) -> std::string {
    const auto made = call_constraint(set, {.calls = format}, {&json, "format"});
    if (!made || !*made) return "none";
    const auto program = constrain::compile((*made)->constraint);
    if (program) return "fine";
    const SchemaPlace at =
        schema_place((*made)->constraint.source.view(), (*made)->schemas, program.error().where);
    return at.field + " " + at.pointer;
  };
  for (int i = 0; i <= static_cast<int>(kLastCallFormat); ++i) {
    const auto format = static_cast<CallFormat>(i);
    EXPECT_EQ(place(format, odd), "format /properties/p/pattern") << text::to_string(format);
    const std::string of_tool = place(format, fine);
    EXPECT_TRUE(of_tool == "tools[5].input_schema /$defs/d/multipleOf" ||
                of_tool == "tools[5].input_schema /properties/y~1z/multipleOf")
        << text::to_string(format) << ": " << of_tool;
  }
  EXPECT_EQ(schema_place(test::packed(R"({"format":{"type":"any_text"}})").view(), {}, "/format").field, "");
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
    EXPECT_EQ(refused.error().param, "tools[0].function.parameters");
  }
}

TEST(CallConstraint, ParametersThatAreNoObjectAreRefused) {
  ToolSet set = tools(ToolSet::Choice::required);
  for (const CallFormat format : {CallFormat::hermes, CallFormat::qwen3_coder})
    for (const char* parameters : {R"("aaaaaaaaaaaaaaaa")", "5", "true", R"(["type"])"}) {
      set.tools = test::packed(R"([{"type":"function","function":{"name":"odd","parameters":)" +
                               std::string(parameters) + "}}]");
      const auto refused = call_constraint(set, {.calls = format});
      ASSERT_FALSE(refused) << parameters;
      EXPECT_EQ(refused.error().code, ErrorCode::unsupported_feature);
    }
}

std::shared_ptr<constrain::Automaton> strict_answer(CallFormat format, const char* properties) {
  ToolSet set;
  set.tools = test::packed(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
                           R"("additionalProperties":false,"properties":)" +
                           std::string(properties) + "}}}]");
  set.strict = true;
  const auto constraint = call_constraint(set, {.calls = format});
  EXPECT_TRUE(constraint) << (constraint ? "" : constraint.error().message);
  return constraint && *constraint ? played((*constraint)->constraint) : nullptr;
}

struct Spelling {
  CallFormat format;
  const char* call;  // of f, with the argument that belongs at %
  const char *good, *bad;
};

void PrintTo(const Spelling& one, std::ostream* out) {
  *out << text::to_string(one.format) << ": " << one.call;
}

class CallConstraintOf : public ::testing::TestWithParam<Spelling> {};

TEST_P(CallConstraintOf, EverySpellingThatIsReadIsHeldToTheSchema) {
  const auto& [format, call, good, bad] = GetParam();
  const auto answer = strict_answer(format, R"({"n":{"type":"integer"}})");
  ASSERT_TRUE(answer);
  const auto with = [&, begin = std::string(call)](const char* value) {
    std::string out = begin;
    return out.replace(out.find('%'), 1, value);
  };
  EXPECT_TRUE(takes(answer, with(good))) << with(good);
  EXPECT_FALSE(takes(answer, with(bad))) << with(bad);
}

constexpr const char *kGood = R"({"n": 3})", *kBad = R"({"n": "x"})";
INSTANTIATE_TEST_SUITE_P(
    Spellings, CallConstraintOf,
    ::testing::Values(
        Spelling{CallFormat::phi4, "Hi functools[{\"name\": \"f\", \"arguments\": %}]", kGood, kBad},
        Spelling{CallFormat::phi4, "Hi <|tool_call|>[{\"name\": \"f\", \"arguments\": %}]<|/tool_call|>",
                 kGood, kBad},
        Spelling{CallFormat::granite, "Hi <|tool_call|>[{\"name\": \"f\", \"arguments\": %}]", kGood, kBad},
        Spelling{CallFormat::granite, "Hi <tool_call>[{\"name\": \"f\", \"arguments\": %}]</tool_call>",
                 kGood, kBad},
        Spelling{CallFormat::granite, "[{\"name\": \"f\", \"arguments\": %}]", kGood, kBad},
        Spelling{CallFormat::hermes, "{\"name\": \"f\", \"arguments\": %}", kGood, kBad},
        Spelling{CallFormat::json, "{\"name\": \"f\", \"arguments\": %}", kGood, kBad},
        Spelling{CallFormat::llama3, "{\"name\": \"f\", \"parameters\": %}", kGood, kBad},
        Spelling{CallFormat::llama3, "Hi <|python_tag|>{\"name\": \"f\", \"parameters\": %}", kGood, kBad},
        Spelling{CallFormat::qwen3_coder, "Hi <function=f>\n<parameter=n>\n%\n</parameter>\n</function>", "3",
                 "x"},
        Spelling{CallFormat::deepseek_v31, "Hi <｜tool▁call▁begin｜>f<｜tool▁sep｜>%<｜tool▁call▁end｜>",
                 kGood, kBad},
        Spelling{CallFormat::kimi_k2,
                 "Hi <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>%<|tool_call_end|>", kGood,
                 kBad},
        Spelling{CallFormat::glm4, "f\n%", kGood, kBad},
        Spelling{CallFormat::functionary_v32, "f\n%", kGood, kBad},
        Spelling{CallFormat::functionary_v32, "all\nHi\n>>>f\n%", kGood, kBad},
        Spelling{CallFormat::harmony, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>%",
                 kGood, kBad},
        Spelling{CallFormat::harmony, " to=functions.f<|channel|>commentary json<|message|>%", kGood, kBad}),
    [](const auto& each) {
      return std::string(text::to_string(each.param.format)) + std::to_string(each.index);
    });

TEST(CallConstraint, TextMayStandForStrictCalls) {
  for (const CallFormat format :
       {CallFormat::json, CallFormat::llama3, CallFormat::hermes, CallFormat::glm4}) {
    const auto answer = strict_answer(format, "{}");
    ASSERT_TRUE(answer);
    for (const char* text : {"", "Hi {\"name\": \"f\"}", "`x` is", "```python\nf()\n```"})
      EXPECT_TRUE(takes(answer, text)) << text::to_string(format) << text;
  }
  const auto glm = strict_answer(CallFormat::glm4, "{}");
  EXPECT_FALSE(takes(glm, "Hi\nf\n{\"x\": 1}"));
  const auto hermes = strict_answer(CallFormat::hermes, "{}");
  EXPECT_FALSE(takes(hermes, "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"));
  EXPECT_FALSE(takes(hermes, "```json\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n```"));
}

TEST(CallConstraint, NamesOfToolsMayHaveAnyByteOfNames) {
  ToolSet set;
  set.tools = test::packed(R"([{"type":"function","function":{"name":"a-b.c/d:e_1"}}])");
  set.strict = true;
  for (int i = 0; i <= static_cast<int>(kLastCallFormat); ++i)
    EXPECT_TRUE(played((*call_constraint(set, {.calls = static_cast<CallFormat>(i)}))->constraint));
  const auto glm = played((*call_constraint(set, {.calls = CallFormat::glm4}))->constraint);
  EXPECT_FALSE(takes(glm, "Hi\na-b.c/d:e_1\n{"));
  EXPECT_TRUE(takes(glm, "Hi\na-bxc/d:e_1\n{"));
}

TEST(CallConstraint, ProseAboutRecipientsIsNoCallOfHarmony) {
  const auto answer = strict_answer(CallFormat::harmony, "{}");
  EXPECT_TRUE(takes(answer, "<|channel|>final<|message|>Set to=functions.x there"));
  EXPECT_FALSE(takes(answer, "<|channel|>commentary\nto=functions.f<|message|>{\"x\": 1}"));
  EXPECT_FALSE(
      takes(answer, "<|channel|>analysis<|message|>A<|channel|>commentary to=f<|message|>{\"x\": 1}"));
}

TEST(CallConstraint, TypesOfAParameterMayBeAUnion) {
  const auto text = [](const char* schema, const std::string& value) {
    const auto answer = strict_answer(CallFormat::qwen3_coder, schema);
    return answer && takes(answer, "<tool_call>\n<function=f>\n<parameter=u>\n" + value +
                                       "\n</parameter>\n</function>\n</tool_call>");
  };
  EXPECT_TRUE(text(R"({"u":{"type":["string","integer"]}})", "5.5"));
  EXPECT_TRUE(text(R"({"u":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}})", "Oslo"));
  EXPECT_TRUE(text(R"({"u":{"oneOf":[{"type":"string"},{"type":"integer"}]}})", "5"));
}

TEST(CallConstraint, AFormatOfATextIsRefused) {
  ToolSet set = tools(ToolSet::Choice::required);
  set.tools = test::packed(R"([{"type":"function","function":{"name":"odd","parameters":{"properties":{)"
                           R"("d":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}}}}}])");
  EXPECT_FALSE(call_constraint(set, {.calls = CallFormat::qwen3_coder}));
  EXPECT_TRUE(call_constraint(set, {.calls = CallFormat::hermes}));
}

// Behind reasoning that the prompt has opened, JSON would be a call that nothing holds to its schema.
TEST(CallConstraint, TextBeforeCallsWithoutAMarkerEndsNoReasoning) {
  for (const CallFormat format :
       {CallFormat::json, CallFormat::hermes, CallFormat::llama3, CallFormat::granite}) {
    const AnswerForm form{.calls = format, .reasoning = ReasoningFormat::think};
    const auto constraint = call_constraint(tools(ToolSet::Choice::automatic), form);
    ASSERT_TRUE(constraint && *constraint);
    const auto answer = played((*constraint)->constraint);
    EXPECT_TRUE(takes(answer, "Well.")) << text::to_string(format);
    EXPECT_FALSE(takes(answer, "Well.</think>\n\n{}")) << text::to_string(format);
  }
}

// A small body would become a constraint of gigabytes.
TEST(CallConstraint, DefinitionsAreNotRepeatedWithoutEnd) {
  std::string definitions, referring, plain;
  for (int i = 0; i < 2000; ++i) {
    const std::string n = std::to_string(i);
    definitions += (i > 0 ? "," : "") + ("\"d" + n + R"(":{"type":"integer"})");
    referring += (i > 0 ? "," : "") + ("\"a" + n + R"(":{"$ref":"#/$defs/d0"})");
    plain += (i > 0 ? "," : "") + ("\"a" + n + R"(":{"type":"integer"})");
  }
  const auto constrained = [&](const std::string& properties) {
    ToolSet set = tools(ToolSet::Choice::required);
    set.tools = test::packed(R"([{"type":"function","function":{"name":"big","parameters":{"properties":{)" +
                             properties + R"(},"$defs":{)" + definitions + "}}}}]");
    return call_constraint(set, {.calls = CallFormat::qwen3_coder});
  };
  const auto many = constrained(referring);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, ErrorCode::unsupported_feature);
  EXPECT_NE(many.error().message.find("\"big\""), std::string::npos) << many.error().message;
  ASSERT_TRUE(constrained(plain));
  EXPECT_LT((*constrained(plain))->constraint.source.bytes().size(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace flyball::api::calls
