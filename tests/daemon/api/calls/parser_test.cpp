// Answers of each family of models to text, reasoning and calls.
#include "daemon/api/calls/parser.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/call_markers.hpp"
#include "config/utf8.hpp"
#include "tests/daemon/api/calls/parsed.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::calls {
namespace {

using testing::Case;
using testing::cases_of;
using testing::parsed;
using testing::shown;

std::vector<std::size_t> every_byte(const std::string& text) {
  std::vector<std::size_t> cuts(text.size());
  std::iota(cuts.begin(), cuts.end(), 0);
  return cuts;
}

class CallsOf : public ::testing::TestWithParam<CallFormat> {};

TEST_P(CallsOf, AnswersAreCutIntoTextReasoningAndCalls) {
  const auto cases = cases_of(GetParam());
  EXPECT_GE(cases.size(), 30U);
  for (const Case& each : cases) {
    const Choice got = parsed(each, {});
    EXPECT_EQ(shown(got, false), shown(each.want, false)) << each.name << ": " << each.text;
    if (got.calls.size() != each.want.calls.size()) continue;
    for (std::size_t i = 0; i < got.calls.size(); ++i)
      if (const std::string& id = each.want.calls[i].id; !id.empty()) {
        EXPECT_EQ(got.calls[i].id, id) << each.name;
      }
  }
}

TEST_P(CallsOf, ItDoesNotMatterHowTheTextIsCut) {
  for (const Case& each : cases_of(GetParam())) {
    const std::string whole = shown(parsed(each, {}), true);
    EXPECT_EQ(shown(parsed(each, every_byte(each.text)), true), whole) << each.name;
    for (std::size_t cut = 1; cut < each.text.size(); ++cut)
      ASSERT_EQ(shown(parsed(each, {cut}), true), whole) << each.name << " at " << cut;
  }
}

// Cut, repeated and mixed up.
std::string mutated(const std::vector<Case>& cases, std::mt19937& random) {
  const auto any = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  std::string text = cases[any(cases.size())].text;
  for (std::size_t edits = 1 + any(4); edits > 0; --edits) {
    const std::string& other = cases[any(cases.size())].text;
    const std::size_t from = any(other.size() + 1), at = any(text.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, other, from, any(40));
        break;
      case 1:
        text.erase(at, 1 + any(12));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random() % 256);
        break;
      default:
        text.resize(at);
        text += other.substr(from);
    }
  }
  return text;
}

TEST_P(CallsOf, MixedUpAnswersAreTheSameHoweverTheyAreCut) {
  std::mt19937 random(static_cast<unsigned>(GetParam()) + 1);
  const auto cases = cases_of(GetParam());
  std::size_t calls = 0, texts = 0;
  for (int i = 0; i < 3000; ++i) {
    Case each = cases[random() % cases.size()];
    each.text = mutated(cases, random);
    const Choice whole = parsed(each, {});
    calls += whole.calls.size();
    texts += !whole.text.empty();
    ASSERT_EQ(shown(parsed(each, every_byte(each.text)), true), shown(whole, true)) << each.text;
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at < each.text.size(); at += 1 + random() % 20) cuts.push_back(at);
    ASSERT_EQ(shown(parsed(each, cuts), true), shown(whole, true)) << each.text;
    for (const auto& call : whole.calls) {
      const bool is_object = nlohmann::json::accept(call.arguments) && call.arguments.starts_with('{');
      ASSERT_TRUE(is_object || !call.complete || !is_utf8(each.text)) << each.text << "\n" << call.arguments;
    }
  }
  EXPECT_GT(calls, 300U);
  EXPECT_GT(texts, 300U);
}

// The markers of a format may be control tokens; the others show nowhere.
TEST_P(CallsOf, ControlTokensAreMarkersOrNothing) {
  for (const Case& each : cases_of(GetParam())) {
    const auto parser = make_parser(each.tools, each.form, "answer");
    Choice got;
    AnswerEvents events;
    parser->begin_batch();
    std::size_t at = 0;
    while (at < each.text.size()) {
      const std::string_view rest = std::string_view(each.text).substr(at);
      std::size_t n = 1;
      bool control = false;
      for (const std::string_view marker : markers_of(each.form.calls))
        if (rest.starts_with(marker)) {
          n = marker.size();
          control = true;
        }
      parser->parse(rest.substr(0, n), control, events);
      if (control) parser->parse("<|fim_pad|>", true, events);
      at += n;
    }
    parser->parse("<|im_end|>", true, events);
    parser->end(events);
    gather(got, events);
    EXPECT_EQ(shown(got, false), shown(each.want, false)) << each.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CallsOf, ::testing::ValuesIn([] {
                           std::vector<CallFormat> all;
                           for (int i = 0; i <= static_cast<int>(kLastCallFormat); ++i)
                             all.push_back(static_cast<CallFormat>(i));
                           return all;
                         }()),
                         [](const auto& each) { return std::string(text::to_string(each.param)); });

std::string events_of(TextParser& parser, std::string_view text) {
  AnswerEvents events;
  parser.begin_batch();
  parser.parse(text, false, events);
  std::string out;
  for (const AnswerEvent& each : events) {
    if (const auto* e = std::get_if<event::Text>(&each)) out += "text(" + std::string(e->text) + ")";
    if (const auto* e = std::get_if<event::Reasoning>(&each))
      out += "reasoning(" + std::string(e->text) + ")";
    if (const auto* e = std::get_if<event::CallBegin>(&each)) out += "call(" + std::string(e->name) + ")";
    if (const auto* e = std::get_if<event::CallArguments>(&each)) out += "json(" + std::string(e->json) + ")";
    if (const auto* e = std::get_if<event::CallEnd>(&each)) out += e->complete ? "end" : "broken";
  }
  return out;
}

std::shared_ptr<const ToolSet> weather() {
  return testing::tools_of(
      R"([{"type":"function","function":{"name":"f","parameters":{"properties":{"s":{"type":"string"}}}}}])");
}

TEST(Calls, NothingIsHeldBackLongerThanItMayBeAMarker) {
  const auto parser = make_parser(weather(), {.calls = CallFormat::hermes}, "");
  EXPECT_EQ(events_of(*parser, "Hi"), "text(Hi)");
  EXPECT_EQ(events_of(*parser, " <tool_"), "");
  EXPECT_EQ(events_of(*parser, "box>"), "text( <tool_box>)");
  EXPECT_EQ(events_of(*parser, "\n<tool_call>{\"name\": \"f"), "");
  EXPECT_EQ(events_of(*parser, "\""), "call(f)");
  EXPECT_EQ(events_of(*parser, ", \"arguments\": {"), "json({)");
  EXPECT_EQ(events_of(*parser, "\"s\": \"a"), "json(\"s\": \"a)");
  EXPECT_EQ(events_of(*parser, "\"}"), "json(\"})end");
}

TEST(Calls, StringsOfParametersLeaveAsTheyArrive) {
  const auto parser = make_parser(weather(), {.calls = CallFormat::qwen3_coder}, "");
  EXPECT_EQ(events_of(*parser, "<tool_call>\n<function=f>\n"), "call(f)");
  EXPECT_EQ(events_of(*parser, "<parameter=s>\n"), "json({\"s\":\")");
  EXPECT_EQ(events_of(*parser, "a <b"), "json(a <b)");
  EXPECT_EQ(events_of(*parser, "\n"), "");
  EXPECT_EQ(events_of(*parser, "c\n</para"), "json(\\nc)");
  EXPECT_EQ(events_of(*parser, "meter>"), "json(\")");
  EXPECT_EQ(events_of(*parser, "</function>"), "json(})end");
}

TEST(Calls, AReaderOfAnswersSaysWhileItReasons) {
  const auto parser = make_parser(nullptr, {.reasoning = ReasoningFormat::think}, "");
  EXPECT_FALSE(parser->in_reasoning());
  EXPECT_EQ(events_of(*parser, "<think>\nSo"), "reasoning(So)");
  EXPECT_TRUE(parser->in_reasoning());
  EXPECT_EQ(events_of(*parser, " so\n</think>\n\nHi\n"), "reasoning( so)text(Hi\n)");
  EXPECT_FALSE(parser->in_reasoning());
  EXPECT_TRUE(
      make_parser(nullptr, {.reasoning = ReasoningFormat::think, .in_reasoning = true}, "")->in_reasoning());
}

TEST(Calls, IdsAreNineLettersAndDigitsAndDifferByAnswerAndCall) {
  std::set<std::string> ids;
  for (const char* answer : {"a", "b", "req-1 0", "req-1 1"}) {
    const auto parser = make_parser(weather(), {.calls = CallFormat::mistral_v11}, answer);
    Choice got;
    AnswerEvents events;
    parser->parse("[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[ARGS]{}", false, events);
    gather(got, events);
    ASSERT_EQ(got.calls.size(), 2U);
    for (const auto& call : got.calls) {
      EXPECT_EQ(call.id.size(), 9U);
      EXPECT_EQ(call.id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
                std::string::npos);
      EXPECT_TRUE(ids.insert(call.id).second);
    }
  }
}

TEST(Calls, NoneAreReadWhereTheClientWantsNone) {
  auto tools = std::make_shared<ToolSet>(*weather());
  tools->choice = ToolSet::Choice::none;
  const std::string text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(events_of(*make_parser(tools, {.calls = CallFormat::hermes}, ""), text), "text(" + text + ")");
}

TEST(Calls, IdsOfOneAnswerDiffer) {
  for (const auto& [format, text] :
       {std::pair{CallFormat::kimi_k2, std::string("<|tool_call_begin|>f<|tool_call_argument_begin|>{}"
                                                   "<|tool_call_end|>")},
        {CallFormat::kimi_k2, "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"},
        {CallFormat::command_r7b,
         R"(<|START_ACTION|>[{"tool_call_id":"0","tool_name":"f","parameters":{}}]<|END_ACTION|>)"}}) {
    const auto parser = make_parser(weather(), {.calls = format}, "answer");
    Choice got;
    AnswerEvents events;
    parser->parse(text + text, false, events);
    gather(got, events);
    ASSERT_EQ(got.calls.size(), 2U) << text;
    EXPECT_NE(got.calls[0].id, got.calls[1].id);
  }
}

// A function in a namespace has a long name soon.
TEST(Calls, TheLongestNameIsReadInEachIdAndHeader) {
  const std::string name = "space." + std::string(kMaxToolNameBytes - 6, 'f');
  for (const auto& [format, text] :
       {std::pair{CallFormat::kimi_k2, "<|tool_call_begin|>functions." + name +
                                           ":1234<|tool_call_argument_begin|>{}<|tool_call_end|>"},
        {CallFormat::harmony,
         "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>{}<|call|>"},
        {CallFormat::hermes, "<tool_call>{\"name\": \"" + name + "\", \"arguments\": {}}</tool_call>"}})
    EXPECT_EQ(events_of(*make_parser(weather(), {.calls = format}, ""), text),
              "call(" + name + ")json({})end");
}

TEST(Calls, AFractionIsAStringWhereAnIntegerOrAStringIsDue) {
  const auto tools = testing::tools_of(
      R"([{"type":"function","function":{"name":"f","parameters":{"properties":{"u":{"type":["string","integer"]}}}}}])");
  for (const auto& [value, json] : {std::pair{"5.5", "\"5.5\""}, {"-5", "-5"}, {"5e1", "\"5e1\""}}) {
    const auto parser = make_parser(tools, {.calls = CallFormat::qwen3_coder}, "");
    EXPECT_EQ(
        events_of(*parser, "<function=f><parameter=u>" + std::string(value) + "</parameter></function>"),
        "call(f)json({\"u\":" + std::string(json) + "})end");
  }
}

TEST(Calls, AHeaderOfHarmonyIsHeldBackForAFewWordsAtMost) {
  const auto parser = make_parser(weather(), {.calls = CallFormat::harmony}, "");
  EXPECT_EQ(events_of(*parser, "<|channel|>final<|message|>I add <|start|> and "),
            "text(I add <|start|> and )");
}

ChoiceReader reader_of(CallFormat format, ReasoningFormat reasoning) {
  return ChoiceReader(
      [=](const AnswerForm&, std::string_view ids) {
        return make_parser(weather(), {.calls = format, .reasoning = reasoning}, ids);
      },
      "");
}
void read(ChoiceReader& reader, std::string_view text, std::size_t tokens = 1) {
  const std::vector<Token> all(tokens);
  Delta delta;
  delta.tokens.assign(all.begin(), all.end());
  delta.text = text;
  reader.read(delta);
}

TEST(ReaderOfCalls, CountsTheTokensOfReasoning) {
  auto think = reader_of(CallFormat::hermes, ReasoningFormat::think);
  read(think, "<think>a</think>b", 5);
  EXPECT_EQ(think.reasoning_tokens(), 5U);
  read(think, "c", 3);
  EXPECT_EQ(think.reasoning_tokens(), 5U);

  auto harmony = reader_of(CallFormat::harmony, ReasoningFormat::none);
  read(harmony, "<|channel|>analysis<|message|>");
  read(harmony, "Hm");
  EXPECT_EQ(harmony.reasoning_tokens(), 2U);
  read(harmony, "<|end|><|start|>assistant<|channel|>final<|message|>Hi", 7);
  EXPECT_EQ(harmony.reasoning_tokens(), 2U);
}

TEST(ReaderOfCalls, AnAnswerThatStopsBehindACallEndsByToolCalls) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const auto reason = [](std::string_view text, FinishReason done) {
    auto reader = reader_of(CallFormat::hermes, ReasoningFormat::none);
    read(reader, text);
    Done end;
    end.reason = done;
    return std::get<event::Finish>(reader.read(end, nullptr).back()).reason;
  };
  EXPECT_EQ(reason(call, FinishReason::stop), FinishReason::tool_calls);
  EXPECT_EQ(reason(call, FinishReason::length), FinishReason::length);
  EXPECT_EQ(reason("Hi", FinishReason::stop), FinishReason::stop);
  EXPECT_EQ(reason("<tool_call>{\"name\": \"f\", \"arguments\": {", FinishReason::stop), FinishReason::stop);
}

}  // namespace
}  // namespace flyball::api::calls
