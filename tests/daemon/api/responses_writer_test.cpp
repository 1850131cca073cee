// Answers in the shape of the Responses API: streams and whole responses.
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/openai/responses_fields.hpp"
#include "daemon/api/openai/responses_tools.hpp"
#include "daemon/api/openai/responses_writer.hpp"
#include "tests/daemon/api/responses_tools.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::openai::responses {
namespace {

using nlohmann::json;

Echo echo_of(const std::string& body) {
  UnknownFields unknown;
  const PackedJson document = test::packed(body);
  const Fields fields(document.view(), field_table(), kCreate, unknown);
  auto tools = read_tools(fields, unknown);
  if (!tools) std::abort();
  return {fields, *tools};
}

json whole(Choice choice, Shape shape = {}, const Totals& totals = {}, const std::string& body = "{}") {
  Writer writer(shape, echo_of(body));
  writer.begin({"req-1", 5, "m", 1});
  std::string out;
  while (writer.whole({&choice, 1}, totals, out)) continue;
  return json::parse(out);
}

TEST(ResponsesWriter, AWholeResponseHasItsItemsAndWhatWasAsked) {
  Choice choice;
  choice.reasoning = "hm";
  choice.text = "Look.";
  choice.calls = {{"c1", "weather", R"({"city":"Bern"})", true}, {"c2", "clock", "{", false}};
  choice.reason = FinishReason::tool_calls;
  const std::string body =
      std::string(R"({"instructions":"a","temperature":0.7,"max_output_tokens":9,"metadata":{"k":"v"},
          "reasoning":{"effort":"low"},"text":{"format":{"type":"text"}},"tool_choice":"required","tools":[)") +
      kWeather + "," + kClock + "]}";
  EXPECT_EQ(whole(choice, {}, {{10, 5, 4}, 1000, 2}, body), json::parse(R"({
      "id":"resp_1","object":"response","created_at":5,"status":"incomplete","background":false,"error":null,
      "incomplete_details":null,"model":"m","output":[
        {"id":"rs_1_0","type":"reasoning","status":"completed","summary":[],
         "content":[{"type":"reasoning_text","text":"hm"}]},
        {"id":"msg_1_1","type":"message","status":"completed","role":"assistant",
         "content":[{"type":"output_text","annotations":[],"text":"Look.","logprobs":[]}]},
        {"id":"fc_1_2","type":"function_call","status":"completed","call_id":"c1","name":"weather",
         "arguments":"{\"city\":\"Bern\"}"},
        {"id":"fc_1_3","type":"function_call","status":"incomplete","call_id":"c2","name":"clock",
         "arguments":"{"}],
      "max_output_tokens":9,"parallel_tool_calls":true,"previous_response_id":null,
      "reasoning":{"effort":"low","summary":null},"store":false,"temperature":0.7,"top_logprobs":0,"top_p":1,
      "truncation":"disabled","instructions":"a","metadata":{"k":"v"},"text":{"format":{"type":"text"}},
      "tool_choice":"required","tools":[
        {"type":"function","name":"weather","description":"d","parameters":{"type":"object"},"strict":true},
        {"type":"function","name":"clock","description":null,"parameters":null,"strict":false}],
      "usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},
        "output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}})"));
}

// A name that the model made up has none.
TEST(ResponsesWriter, ACallNamesItsNamespace) {
  const std::string body = std::string(R"({"tools":[)") + kAgents + "," + kClock + "]}";
  UnknownFields unknown;
  const PackedJson document = test::packed(body);
  auto tools = read_tools(Fields(document.view(), field_table(), kCreate, unknown), unknown);
  ASSERT_TRUE(tools.has_value());
  Writer writer({}, echo_of(body), std::move(tools->namespaces));
  writer.begin({"req-1", 0, "m", 1});
  Choice choice;
  choice.calls = {
      {"c1", "agents.spawn", "{}", true}, {"c2", "clock", "{}", true}, {"c3", "agents.x", "{}", true}};
  std::string out;
  while (writer.whole({&choice, 1}, {}, out)) continue;
  const json response = json::parse(out);
  EXPECT_EQ(response["output"][0]["name"], "spawn");
  EXPECT_EQ(response["output"][0]["namespace"], "agents");
  for (const std::size_t i : {1, 2}) EXPECT_FALSE(response["output"][i].contains("namespace"));
  EXPECT_EQ(response["output"][2]["name"], "agents.x");
  ASSERT_EQ(response["tools"].size(), 2U);
  EXPECT_EQ(response["tools"][0], json::parse(kAgents));
  const json limited = whole({}, {}, {},
                             std::string(R"({"tools":[)") + kAgents + "," + kClock +
                                 R"(],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[)"
                                 R"({"type":"function","name":"agents.close"}]}})");
  EXPECT_EQ(limited["tools"], json::array({json::parse(kAgents)})) << "a namespace stands whole";
  EXPECT_EQ(response["tools"][1]["name"], "clock");
}

TEST(ResponsesWriter, AnAnswerCutByItsLengthIsIncomplete) {
  Choice choice;
  choice.reasoning = "hm";
  choice.reason = FinishReason::length;
  const json thinking = whole(choice);
  EXPECT_EQ(thinking["status"], "incomplete");
  EXPECT_EQ(thinking["incomplete_details"], json::parse(R"({"reason":"max_output_tokens"})"));
  EXPECT_EQ(thinking["output"][0]["status"], "incomplete");
  choice.text = "x";
  const json text = whole(choice);
  EXPECT_EQ(text["output"][0]["status"], "completed");
  EXPECT_EQ(text["output"][1]["status"], "incomplete");
  EXPECT_EQ(whole({})["output"], json::array()) << "no text is no item";
}

TEST(ResponsesWriter, ReasoningWhereClientsLookForIt) {
  Choice choice;
  choice.reasoning = "h\"m";
  const json item = whole(choice, {.summaries = true, .encrypted = true})["output"][0];
  EXPECT_EQ(item["summary"], json::parse(R"([{"type":"summary_text","text":"h\"m"}])"));
  EXPECT_EQ(item["content"], json::array());
  EXPECT_EQ(item["encrypted_content"], "flyball:h\"m");
}

// A long text of escapes and characters of several bytes comes in pieces, and is whole.
TEST(ResponsesWriter, WholeAnswersOfManyPieces) {
  std::string text;
  while (text.size() < 3 * http::BodySource::kPieceBytes) text += "a\"\\\nZ\xC3\xBCrich \xF0\x9F\xA6\x8B";
  Choice choice;
  choice.reasoning = text + "r";
  choice.text = text;
  choice.calls = {{"t", "f", text, false}};
  for (int i = 0; i < 3000; ++i) choice.logprobs.append({i, "w", -0.5F, {{"w", -0.5F}}});
  Writer writer({.logprobs = true, .encrypted = true}, echo_of(json{{"instructions", text}}.dump()));
  EXPECT_GT(writer.bytes({}), text.size()) << "it holds the instructions";
  writer.begin({"req-1", 0, "m", 1});
  std::string body;
  std::size_t pieces = 1;
  for (std::size_t before = 0; writer.whole({&choice, 1}, {}, body); before = body.size()) {
    EXPECT_LT(body.size() - before, 3 * http::BodySource::kPieceBytes);
    ++pieces;
  }
  EXPECT_GT(pieces, 8U);
  const json response = json::parse(body);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], text + "r");
  EXPECT_EQ(response["output"][0]["encrypted_content"], "flyball:" + text + "r");
  EXPECT_EQ(response["output"][1]["content"][0]["text"], text);
  EXPECT_EQ(response["output"][1]["content"][0]["logprobs"].size(), 3000U);
  EXPECT_EQ(response["output"][2]["arguments"], text);
  EXPECT_EQ(response["instructions"], text);
}

std::vector<json> streamed(Shape shape, std::initializer_list<AnswerEvents> batches,
                           Namespaces namespaces = {}) {
  Writer writer(shape, Echo(), std::move(namespaces));
  writer.begin({"req-1", 0, "m", 1});
  std::string out;
  Frames frames(StreamFraming::ndjson, out);
  for (const AnswerEvents& events : batches) writer.write(0, events, frames);
  std::vector<json> lines;
  for (std::size_t at = 0; at < out.size(); at = out.find('\n', at) + 1) {
    lines.push_back(json::parse(out.substr(at, out.find('\n', at) - at)));
    EXPECT_EQ(lines.back()["sequence_number"], lines.size() - 1);
  }
  return lines;
}

std::vector<std::string> types_of(const std::vector<json>& events) {
  std::vector<std::string> out;
  for (const json& event : events) out.push_back(event["type"].get<std::string>().substr(9));  // "response."
  return out;
}

TEST(ResponsesWriter, SummariesHaveTheirOwnEvents) {
  const auto events = streamed({.summaries = true}, {{event::Reasoning{"a"}, event::Reasoning{""}},
                                                     {event::Reasoning{"b"}},
                                                     {event::Finish{}, event::Ended{}}});
  EXPECT_EQ(types_of(events),
            (std::vector<std::string>{"created", "in_progress", "output_item.added",
                                      "reasoning_summary_part.added", "reasoning_summary_text.delta",
                                      "reasoning_summary_text.delta", "reasoning_summary_text.done",
                                      "reasoning_summary_part.done", "output_item.done", "completed"}));
  EXPECT_EQ(events[4]["summary_index"], 0);
  EXPECT_EQ(events[6]["text"], "ab");
  EXPECT_EQ(events.back()["response"]["output"][0], events[8]["item"]);
}

TEST(ResponsesWriter, AStreamedCallNamesItsNamespace) {
  Namespaces namespaces;
  namespaces.add({"agents", "spawn"});
  const auto events =
      streamed({},
               {{event::CallBegin{0, "c", "agents.spawn"}, event::CallArguments{0, "{}"}, event::CallEnd{0}},
                {event::Finish{FinishReason::tool_calls, {}, {}}, event::Ended{}}},
               std::move(namespaces));
  std::size_t items = 0;
  for (const json& event : events) {
    if (event["type"] == "response.function_call_arguments.done") {
      EXPECT_EQ(event["name"], "spawn");
    }
    if (!event.contains("item")) continue;
    ++items;
    EXPECT_EQ(event["item"]["namespace"], "agents");
    EXPECT_EQ(event["item"]["name"], "spawn");
  }
  EXPECT_EQ(items, 2U);
  EXPECT_EQ(events.back()["response"]["output"][0]["namespace"], "agents");
}

TEST(ResponsesWriter, TextBehindACallIsAnotherItem) {
  const auto events =
      streamed({}, {{event::Text{"a"}, event::CallBegin{0, "c", "f"}, event::CallEnd{0}, event::Text{"b"}},
                    {event::Finish{}, event::Ended{}}});
  const json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 3U);
  EXPECT_EQ(output[0]["content"][0]["text"], "a");
  EXPECT_EQ(output[1]["arguments"], "");
  EXPECT_EQ(output[2]["content"][0]["text"], "b");
  EXPECT_EQ(output[2]["id"], "msg_1_2");
}

TEST(ResponsesWriter, LogprobsGoWithTheTextBehindThem) {
  const TokenLogprob first{1, "a", -0.5F, {}}, second{2, "b", -1.0F, {}};
  const auto events = streamed({.logprobs = true}, {{event::Logprobs{{&first, 1}}},
                                                    {event::Logprobs{{&second, 1}}, event::Text{"ab"}},
                                                    {event::Logprobs{{&first, 1}}},
                                                    {event::Finish{}, event::Ended{}}});
  std::vector<std::size_t> listed;
  for (const json& event : events)
    if (event["type"] == "response.output_text.delta") listed.push_back(event["logprobs"].size());
  EXPECT_EQ(listed, (std::vector<std::size_t>{2, 1}));
  const json& all = events.back()["response"]["output"][0]["content"][0]["logprobs"];
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1], json::parse(R"({"token":"b","logprob":-1,"bytes":[98],"top_logprobs":[]})"));
}

// The number of logprobs that a stream's message, and a whole response's, has of these batches.
std::pair<std::size_t, std::size_t> logprobs_of(std::initializer_list<AnswerEvents> batches) {
  const auto count = [](const json& response) {
    for (const json& item : response["output"])
      if (item["type"] == "message") return item["content"][0]["logprobs"].size();
    return std::size_t{0};
  };
  Choice choice;
  for (const AnswerEvents& events : batches) gather(choice, events);
  return {count(streamed({.logprobs = true}, batches).back()["response"]),
          count(whole(choice, {.logprobs = true}))};
}

TEST(ResponsesWriter, LogprobsOfReasoningAndCallsAreNotTheTexts) {
  const std::vector<TokenLogprob> three(3, TokenLogprob{1, "a", -0.5F, {}});
  const std::vector<TokenLogprob> control{{2, "</think>", -0.5F, {}, false}};
  const std::span<const TokenLogprob> one(three.data(), 1), two(three.data(), 2), all(three);
  const event::Ended ended{};
  const std::pair<std::size_t, std::size_t> only_texts{2, 2};
  EXPECT_EQ(logprobs_of({{event::Logprobs{all}, event::Reasoning{"hm"}},
                         {event::Logprobs{control}},
                         {event::Logprobs{two}, event::Text{"x"}},
                         {event::Finish{}, ended}}),
            only_texts);
  EXPECT_EQ(logprobs_of({{event::Logprobs{two}, event::Text{"x"}},
                         {event::Logprobs{one}},
                         {event::Logprobs{one}, event::CallBegin{0, "c", "f"}, event::CallArguments{0, "{"}},
                         {event::Logprobs{all}, event::CallArguments{0, "}"}, event::CallEnd{0}},
                         {event::Logprobs{one}},
                         {event::Finish{FinishReason::tool_calls, {}, {}}, ended}}),
            only_texts);
  EXPECT_EQ(logprobs_of(
                {{event::Logprobs{one}, event::Text{"x"}}, {event::Logprobs{one}}, {event::Finish{}, ended}}),
            only_texts)
      << "a token whose text was held back is the text's";
}

TEST(ResponsesWriter, EncryptedContentOfAStream) {
  const auto events =
      streamed({.encrypted = true}, {{event::Reasoning{"h\"m"}}, {event::Finish{}, event::Ended{}}});
  const json& item = events.back()["response"]["output"][0];
  EXPECT_EQ(item["encrypted_content"], "flyball:h\"m");
  EXPECT_EQ(item["content"][0]["text"], "h\"m");
  EXPECT_EQ(events[events.size() - 2]["item"], item);
}

TEST(ResponsesWriter, AStreamThatFailsWithinAnItemEndsIt) {
  const Error error{ErrorCode::overloaded, "Full.", {}, {}};
  const auto thinking = streamed({}, {{event::Reasoning{"hm"}}, {event::Failed{error}}});
  EXPECT_EQ(thinking.back()["response"]["output"][0]["status"], "incomplete");
  EXPECT_EQ(thinking[thinking.size() - 2]["type"], "error");
  EXPECT_EQ(thinking[thinking.size() - 3]["type"], "response.output_item.done");
  const auto calling =
      streamed({}, {{event::CallBegin{0, "c", "f"}, event::CallArguments{0, "{"}}, {event::Failed{error}}});
  const json& call = calling.back()["response"]["output"][0];
  EXPECT_EQ(call["status"], "incomplete");
  EXPECT_EQ(call["arguments"], "{");
  EXPECT_EQ(calling.back()["response"]["status"], "failed");
}

TEST(ResponsesWriter, ABrokenCallMakesTheResponseIncomplete) {
  const auto events =
      streamed({}, {{event::CallBegin{0, "c", "f"}, event::CallArguments{0, "{"}, event::CallEnd{0, false}},
                    {event::Finish{}, event::Ended{}}});
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(events.back()["response"]["status"], "incomplete");
  EXPECT_EQ(events.back()["response"]["incomplete_details"], nullptr) << "it was not cut by its length";
}

TEST(ResponsesWriter, TheFirstEventsRepeatShortRequests) {
  const auto first_of = [](const std::string& instructions) {
    Writer writer({.streamed = true}, echo_of(json{{"instructions", instructions}}.dump()));
    writer.begin({"req-1", 0, "m", 1});
    std::string out;
    Frames frames(StreamFraming::ndjson, out);
    writer.write(0, AnswerEvents{event::Text{"a"}}, frames);
    return json::parse(out.substr(0, out.find('\n')))["response"];
  };
  const json response = first_of("Be brief.");
  EXPECT_EQ(response["instructions"], "Be brief.");
  EXPECT_EQ(response["tools"], json::array());
  EXPECT_EQ(response["tool_choice"], "auto");
  EXPECT_FALSE(first_of(std::string(10'000, 'x')).contains("instructions"));
}

TEST(ResponsesWriter, AStreamThatFailsAtOnceStillBegins) {
  const Error error{ErrorCode::overloaded, "Full.", {}, {}};
  const auto events = streamed({}, {{event::Failed{error}}});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0]["type"], "response.created");
  EXPECT_EQ(events[2]["type"], "error");
  EXPECT_EQ(events[2]["code"], "overloaded");
  EXPECT_EQ(events[3]["response"]["status"], "failed");
  EXPECT_EQ(events[3]["response"]["error"], json::parse(R"({"code":"overloaded","message":"Full."})"));
}

// Everything that a writer adds to `out`, but the deltas, is at most what it said it would hold.
TEST(ResponsesWriter, CountsWhatItRepeatsBeforeItWrites) {
  const std::string text(1000, '\n');  // two bytes each as JSON
  const TokenLogprob token{1, "a", -0.1F, {{"b", -0.3F}, {"\x01", -0.7F}}};
  for (const Shape& shape : {Shape{.streamed = true}, Shape{.encrypted = true, .streamed = true},
                             Shape{.logprobs = true, .streamed = true}}) {
    Writer writer(shape, echo_of(json{{"instructions", text}}.dump()));
    writer.begin({"req-1", 0, "m", 1});
    std::string out;
    Frames frames(StreamFraming::ndjson, out);
    std::size_t deltas = 0;
    const auto write = [&](const AnswerEvents& events) {
      const std::size_t said = writer.bytes(events), before = out.size();
      writer.write(0, events, frames);
      EXPECT_LE(writer.bytes({}), said + 1024) << "an item's own bytes may come on top";
      for (std::size_t at = before; at < out.size(); at = out.find('\n', at) + 1)
        if (const std::size_t end = out.find('\n', at); out.substr(at, end - at).contains(".delta\""))
          deltas += end - at;
    };
    for (int i = 0; i < 3; ++i) write({event::Logprobs{{&token, 1}}, event::Reasoning{text}});
    for (int i = 0; i < 3; ++i) write({event::Logprobs{{&token, 1}}, event::Text{text}});
    write({event::CallBegin{0, "c", "f"}, event::CallArguments{0, text}, event::CallEnd{0}});
    const std::size_t held = writer.bytes({});
    write({event::Finish{}, event::Ended{}});
    EXPECT_EQ(writer.bytes({}), held) << "the last batch adds nothing";
    EXPECT_GE(held, out.size() - deltas);
    EXPECT_LE(held, 2 * out.size());
  }
}

}  // namespace
}  // namespace flyball::api::openai::responses
