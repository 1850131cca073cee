// Tools, calls and results told as text to models whose chat template has no place for them.
#include "daemon/api/tool_prompt.hpp"

#include <string>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/api/chat_history.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api {
namespace {

using nlohmann::json;
using test::packed;
using test::text_of;

constexpr const char* kWeather =
    R"([{"type":"function","function":{"name":"weather","description":"Looks.","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"default":1.5,"maximum":18446744073709551615}}}}},{"type":"function","function":{"name":"time"}}])";

ChatPrompt chat_of(const std::string& messages, const char* tools = kWeather) {
  const PackedJson sent = packed(messages);
  auto history =
      read_chat_history(sent.view(), [](HistoryObject, std::string_view) noexcept { return true; });
  EXPECT_TRUE(history) << messages;
  ChatPrompt out;
  if (history) out.messages = std::move(history->messages);
  out.tools = packed(tools);
  return out;
}

json told(const std::string& messages, const char* tools = kWeather, const ToolSet* wish = nullptr) {
  const ChatPrompt out = tell_tools(chat_of(messages, tools), wish);
  EXPECT_TRUE(out.tools.empty());
  return json::parse(text_of(out.messages));
}

TEST(ToolPrompt, TellsToolsInASystemMessageOfItsOwn) {
  const json messages = told(R"([{"role":"user","content":"Rain?"}])");
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[0]["content"],
            R"(You can call tools. Each line has one, with the JSON Schema of its parameters:
{"name": "weather", "description": "Looks.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"default": 1.5, "maximum": 18446744073709551615}}}}
{"name": "time"}
To call a tool, answer with this JSON object alone: {"name": "the tool's name", "arguments": {"parameter": "value"}}
Its result comes in the next message. Without a call, answer in plain text.)");
  EXPECT_EQ(messages[1], (json{{"role", "user"}, {"content", "Rain?"}}));
}

TEST(ToolPrompt, TellsToolsBeforeTheClientsSystemMessage) {
  const json messages =
      told(R"([{"content":"Be brief.","role":"system","name":"boss"},{"role":"user","content":"Rain?"}])");
  ASSERT_EQ(messages.size(), 2U);
  const auto content = messages[0]["content"].get<std::string>();
  EXPECT_TRUE(content.starts_with("You can call tools.")) << content;
  EXPECT_TRUE(content.ends_with(" in plain text.\n\nBe brief.")) << content;
  EXPECT_EQ(messages[0]["name"], "boss");
}

TEST(ToolPrompt, SaysWhenACallIsDemanded) {
  const auto end = [](const ToolSet& wish) {
    const json messages = told(R"([{"role":"user","content":"Rain?"}])", kWeather, &wish);
    const auto content = messages[0]["content"].get<std::string>();
    return content.substr(content.rfind("message.") + 8);
  };
  EXPECT_EQ(end({.choice = ToolSet::Choice::required}), " Answer with a call now.");
  EXPECT_EQ(end({.choice = ToolSet::Choice::required, .named = "time"}),
            " Answer with a call of \"time\" now.");
  EXPECT_EQ(end({}), " Without a call, answer in plain text.");
}

TEST(ToolPrompt, WritesCallsAsTheTextThatMadeThem) {
  const std::string history =
      R"([{"role":"user","content":"Rain?"},
          {"role":"assistant","content":"I look.","reasoning_content":"Hm","tool_calls":[
            {"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Z\u00fcrich\",\"days\":[1,null,true]}"}},
            {"id":"b","function":{"name":"time","arguments":""}}]},
          {"role":"tool","tool_call_id":"b","content":"noon"},
          {"role":"tool","tool_call_id":"a","content":"wet"},
          {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"weather","arguments":"no JSON"}}]},
          {"role":"tool","tool_name":"weather","content":"failed"},
          {"role":"tool","content":"twice"},
          {"role":"user","content":"So?"}])";
  const json messages = told(history);
  ASSERT_EQ(messages.size(), 6U);
  EXPECT_EQ(messages[2],
            (json{{"role", "assistant"},
                  {"content",
                   "I look.\n"
                   R"({"name": "weather", "arguments": {"city": "Zürich", "days": [1, null, true]}})"
                   "\n"
                   R"({"name": "time", "arguments": {}})"},
                  {"reasoning_content", "Hm"}}));
  EXPECT_EQ(messages[3],
            (json{{"role", "user"}, {"content", "Tool result of time: noon\nTool result of weather: wet"}}));
  EXPECT_EQ(messages[4],
            (json{{"role", "assistant"}, {"content", R"({"name": "weather", "arguments": "no JSON"})"}}));
  EXPECT_EQ(messages[5],
            (json{{"role", "user"}, {"content", "Tool result of weather: failed\nTool result: twice\nSo?"}}));
  const json without_tools = told(history, "");
  ASSERT_EQ(without_tools.size(), 5U) << "nothing is told";
  EXPECT_EQ(without_tools[0]["content"], "Rain?");
  EXPECT_EQ(without_tools[1], messages[2]);
}

TEST(ToolPrompt, AResultAtTheBeginningIsATurnToo) {
  const json messages = told(R"([{"role":"tool","name":"time","content":"noon"}])");
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[1]["content"], "Tool result of time: noon");
}

TEST(ToolPrompt, FindsThePartsThatNeedIt) {
  EXPECT_TRUE(has_tool_parts(chat_of(R"([{"role":"user","content":"a"}])")));
  EXPECT_FALSE(has_tool_parts(chat_of(R"([{"role":"user","content":"a"}])", "")));
  EXPECT_TRUE(has_tool_parts(chat_of(R"([{"role":"tool","content":"a"}])", "")));
  EXPECT_TRUE(
      has_tool_parts(chat_of(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])", "")));
}

// The length that the router goes by is that of the messages as they are told.
TEST(ToolPrompt, CountsItsJson) {
  const ChatPrompt out = tell_tools(
      chat_of(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f\"","arguments":{"a": "\n"}}}]}])"),
      nullptr);
  EXPECT_EQ(out.messages.json_bytes(), text_of(out.messages).size());
}

}  // namespace
}  // namespace flyball::api
