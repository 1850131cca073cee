// Bodies of the Responses API to typed requests, its input to a chat, and the document that lists its fields.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/chat_history.hpp"
#include "daemon/api/openai/responses_fields.hpp"
#include "daemon/api/openai/responses_input.hpp"
#include "daemon/api/openai/responses_request.hpp"
#include "daemon/api/suit_to_model.hpp"
#include "tests/daemon/api/responses_tools.hpp"
#include "tests/daemon/api/table_rows.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::openai::responses {
namespace {

using nlohmann::json;
using test::text_of;

Result<Generate> read(const std::string& text) {
  const auto body = read_packed(text);
  if (!body) return std::unexpected(body.error());
  return parse_create(body->view());
}

std::string with(const std::string& members) {
  return R"({"model":"m","input":"Hi")" + members + "}";
}
std::string of_input(const std::string& items, const std::string& members = "") {
  return R"({"model":"m","input":[)" + items + "]" + members + "}";
}

Generate taken(const std::string& body) {
  auto out = read(body);
  EXPECT_TRUE(out) << body << ": " << (out ? "" : out.error().message);
  return out ? std::move(*out) : Generate{};
}

Error error_of(const std::string& body) {
  auto out = read(body);
  EXPECT_FALSE(out) << body;
  return out ? Error{} : out.error();
}
void expect_refused(const std::string& body, ErrorCode code, std::string_view param) {
  const Error error = error_of(body);
  EXPECT_EQ(error.code, code) << body << ": " << error.message;
  EXPECT_EQ(error.param, param) << body << ": " << error.message;
}

const ChatPrompt& prompt_of(const Generate& request) {
  return std::get<ChatPrompt>(request.prompts.front());
}
std::string messages_of(const std::string& body) {
  const Generate request = taken(body);
  return request.prompts.empty() ? "" : text_of(prompt_of(request).messages);
}

// ---- the body ---------------------------------------------------------------------------------------------

TEST(ResponsesRequest, SettingsAndDefaults) {
  const Generate plain = taken(with(""));
  EXPECT_EQ(plain.model, "m");
  EXPECT_EQ(plain.kind, Generate::Kind::chat);
  EXPECT_FALSE(plain.stream);
  EXPECT_EQ(plain.base.max_tokens, 0U);
  EXPECT_EQ(plain.base.sampling.temperature, 1.0F);
  EXPECT_EQ(plain.base.sampling.top_logprobs, -1);
  EXPECT_FALSE(plain.tools);
  EXPECT_TRUE(prompt_of(plain).template_args.empty());
  EXPECT_EQ(text_of(prompt_of(plain).messages), R"([{"role":"user","content":"Hi"}])");

  const Generate all = taken(with(
      R"(,"stream":true,"stream_options":{"include_obfuscation":false},"temperature":0.5,"top_p":0.25,"top_k":3,
          "max_output_tokens":5,"seed":9,"stop":"END","top_logprobs":2,"ignore_eos":true,
          "include":["message.output_text.logprobs","web_search_call.action.sources"],"metadata":{"a":"b"},
          "user":"u","store":false,"truncation":"disabled","service_tier":"auto","background":false,
          "previous_response_id":null,"text":{"verbosity":"medium"},"max_tool_calls":2)"));
  EXPECT_EQ(all.stream, StreamFraming::sse);
  EXPECT_EQ(all.base.sampling.temperature, 0.5F);
  EXPECT_EQ(all.base.sampling.top_p, 0.25F);
  EXPECT_EQ(all.base.sampling.top_k, 3);
  EXPECT_EQ(all.base.sampling.top_logprobs, 2);
  EXPECT_EQ(all.base.max_tokens, 5U);
  EXPECT_TRUE(all.base.ignore_eos);
  EXPECT_TRUE(all.seeded);
  EXPECT_EQ(all.base.stop, std::vector<std::string>{"END"});
  EXPECT_FALSE(all.unknown.refusal());
  EXPECT_EQ(all.prompt_bytes, prompt_of(all).messages.json_bytes());
}

TEST(ResponsesRequest, RefusesUnservedFieldsByName) {
  const auto unsupported = ErrorCode::unsupported_value;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"store", "true"},
                                                        {"previous_response_id", R"("resp_1")"},
                                                        {"conversation", R"({"id":"conv_1"})"},
                                                        {"background", "true"},
                                                        {"prompt", R"({"id":"pmpt_1"})"},
                                                        {"truncation", R"("auto")"},
                                                        {"moderation", R"({"model":"m"})"},
                                                        {"messages", "[]"},
                                                        {"max_tokens", "5"},
                                                        {"response_format", R"({"type":"text"})"}})
    expect_refused(with(",\"" + name + "\":" + value), unsupported, name);
  EXPECT_NE(
      error_of(with(R"(,"previous_response_id":"r")")).message.find("send the earlier items in 'input'"),
      std::string::npos);
  expect_refused(with(R"(,"text":{"verbosity":"low"})"), unsupported, "text.verbosity");
  expect_refused(with(R"(,"reasoning":{"mode":"pro"})"), unsupported, "reasoning.mode");
  EXPECT_EQ(taken(with(R"(,"tempreature":1)")).unknown.refusal()->param, "tempreature");
  EXPECT_EQ(taken(with(R"(,"text":{"fromat":{}})")).unknown.refusal()->param, "text.fromat");
}

TEST(ResponsesRequest, WrongValuesNameTheirField) {
  const auto invalid = ErrorCode::invalid_value;
  expect_refused("[]", invalid, "");
  expect_refused(R"({"model":"m"})", ErrorCode::missing_field, "input");
  expect_refused(R"({"model":"m","input":[]})", invalid, "input");
  expect_refused(R"({"model":"m","input":7})", invalid, "input");
  expect_refused(with(R"(,"instructions":["a"])"), invalid, "instructions");
  expect_refused(with(R"(,"max_output_tokens":0)"), invalid, "max_output_tokens");
  expect_refused(with(R"(,"top_logprobs":2)"), invalid, "top_logprobs");
  expect_refused(with(R"(,"include":["x"])"), invalid, "include[0]");
  expect_refused(with(R"(,"include":"x")"), invalid, "include");
  expect_refused(with(R"(,"stream_options":{})"), invalid, "stream_options");
  expect_refused(with(R"(,"metadata":[])"), invalid, "metadata");
  expect_refused(with(R"(,"text":"x")"), invalid, "text");
  expect_refused(with(R"(,"text":{"format":{}})"), invalid, "text.format");
  expect_refused(with(R"(,"reasoning":{"effort":"some"})"), invalid, "reasoning.effort");
  expect_refused(with(R"(,"reasoning":{"summary":"long"})"), invalid, "reasoning.summary");
  expect_refused(with(R"(,"chat_template_kwargs":{"tools":1})"), invalid, "chat_template_kwargs.tools");
}

TEST(ResponsesRequest, ReasoningIsToldToTheTemplate) {
  EXPECT_EQ(text_of(prompt_of(taken(with(R"(,"reasoning":{"effort":"max"})"))).template_args),
            R"({"reasoning_effort":"high","enable_thinking":true,"thinking":true})");
  EXPECT_EQ(text_of(prompt_of(taken(with(R"(,"reasoning":{"effort":"none"},"chat_template_kwargs":{"a":1})")))
                        .template_args),
            R"({"a":1,"enable_thinking":false,"thinking":false})");
  EXPECT_TRUE(prompt_of(taken(with(R"(,"reasoning":{"summary":"auto"})"))).template_args.empty());
}

TEST(ResponsesRequest, FormatsAreConstraints) {
  const Generate schema = taken(with(
      R"(,"text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}})"));
  ASSERT_TRUE(schema.base.constraint);
  EXPECT_EQ(schema.base.constraint->kind, Constraint::Kind::json_schema);
  EXPECT_EQ(schema.constraint_field, "text.format.schema");
  EXPECT_TRUE(schema.wants_json);
  EXPECT_EQ(taken(with(R"(,"text":{"format":{"type":"json_object"}})")).base.constraint->kind,
            Constraint::Kind::json_object);
  EXPECT_FALSE(taken(with(R"(,"text":{"format":{"type":"text"}})")).base.constraint);
  expect_refused(with(R"(,"text":{"format":{"type":"grammar"}})"), ErrorCode::unsupported_value,
                 "text.format.type");
  expect_refused(with(R"(,"text":{"format":{"type":"json_schema","name":"n"}})"), ErrorCode::missing_field,
                 "text.format.schema");
  // A schema that nothing enforces would pass for one that holds.
  for (const char* type : {"text", "json_object"})
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"schema", "{}"}, {"name", R"("n")"}, {"description", R"("d")"}, {"strict", "true"}})
      expect_refused(
          with(R"(,"text":{"format":{"type":")" + std::string(type) + "\",\"" + name + "\":" + value + "}}"),
          ErrorCode::invalid_value, "text.format." + name);
  for (const char* member : {R"("name":7)", R"("description":7)", R"("strict":"yes")"}) {
    const std::string text(member);
    expect_refused(with(R"(,"text":{"format":{"type":"json_schema","schema":{},)" + text + "}}"),
                   ErrorCode::invalid_value, "text.format." + text.substr(1, text.find(':') - 2));
  }
  EXPECT_TRUE(taken(with(R"(,"text":{"format":{"type":"json_schema","schema":{}}})")).base.constraint)
      << "a name is not needed";
}

// ---- tools ------------------------------------------------------------------------------------------------

std::string with_tools(const std::string& more) {
  return with(std::string(R"(,"tools":[)") + kWeather + "," + kClock + "]" + more);
}

TEST(ResponsesTools, StandBesideAFormat) {
  Generate both = taken(with_tools(
      R"(,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"integer"}}},"tool_choice":)"
      R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"clock"}]})"));
  ASSERT_TRUE(suit_to_model(both, nullptr));
  ASSERT_TRUE(both.base.constraint && both.parser);
  EXPECT_EQ(both.base.constraint->kind, Constraint::Kind::structural_tag);
  ASSERT_EQ(both.schema_places.size(), 2U);
  EXPECT_EQ(both.schema_places[0].field, "text.format.schema");
  EXPECT_EQ(both.schema_places[1].field, "tools[1].parameters");
}

TEST(ResponsesTools, AreThoseOfEveryApi) {
  const Generate request = taken(with_tools(""));
  ASSERT_TRUE(request.tools);
  EXPECT_EQ(
      text_of(request.tools->tools),
      R"([{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"clock"}}])");
  EXPECT_EQ(request.tools->choice, ToolSet::Choice::automatic);
  EXPECT_TRUE(request.tools->parallel);
  EXPECT_TRUE(request.tools->strict);
  EXPECT_TRUE(request.has_tools);
  const Generate loose = taken(with(std::string(R"(,"parallel_tool_calls":false,"tools":[)") + kClock + "]"));
  EXPECT_FALSE(loose.tools->strict) << "a tool without `strict` is not strict";
  EXPECT_FALSE(loose.tools->parallel);
}

TEST(ResponsesTools, Choices) {
  EXPECT_FALSE(taken(with_tools(R"(,"tool_choice":"none")")).tools);
  EXPECT_EQ(taken(with_tools(R"(,"tool_choice":"required")")).tools->choice, ToolSet::Choice::required);
  const Generate named = taken(with_tools(R"(,"tool_choice":{"type":"function","name":"clock"})"));
  EXPECT_EQ(named.tools->choice, ToolSet::Choice::required);
  EXPECT_EQ(named.tools->named, "clock");
  const Generate allowed = taken(with_tools(
      R"(,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"clock"}]})"));
  EXPECT_EQ(text_of(allowed.tools->tools), R"([{"type":"function","function":{"name":"clock"}}])");
  EXPECT_EQ(allowed.tools->choice, ToolSet::Choice::required);
  EXPECT_FALSE(allowed.tools->strict);
}

// In the manner of Codex.
TEST(ResponsesTools, OfANamespaceAreToldByJoinedNames) {
  const std::string tools = std::string(R"(,"tools":[)") + kAgents + "," + kClock + "]";
  const Generate both = taken(with(tools));
  EXPECT_EQ(
      text_of(both.tools->tools),
      R"([{"type":"function","function":{"name":"agents.spawn","description":"Other agents.\nBegins one.",)"
      R"("parameters":{"type":"object"}}},{"type":"function","function":{"name":"agents.close"}},)"
      R"({"type":"function","function":{"name":"clock"}}])");
  EXPECT_TRUE(both.tools->strict);
  EXPECT_EQ(both.tools->schema_place(0), "tools[0].tools[0].parameters");
  EXPECT_EQ(both.tools->schema_place(2), "tools[1].parameters");
  EXPECT_EQ(taken(with(tools + R"(,"tool_choice":{"type":"function","name":"agents.close"})")).tools->named,
            "agents.close");
  const Generate allowed = taken(with(
      tools +
      R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"agents.close"}]})"));
  EXPECT_EQ(text_of(allowed.tools->tools),
            R"([{"type":"function","function":{"name":"agents.close","description":"Other agents."}}])");
  EXPECT_EQ(allowed.tools->schema_place(0), "tools[0].tools[1].parameters");
  // A namespace without a description, and one without tools.
  const Generate plain = taken(with(
      R"(,"tools":[{"type":"namespace","name":"a","tools":[{"type":"function","name":"f","description":"F"}]},)"
      R"({"type":"namespace","name":"b","tools":[]}])"));
  EXPECT_EQ(text_of(plain.tools->tools),
            R"([{"type":"function","function":{"name":"a.f","description":"F"}}])");
}

TEST(ResponsesTools, RefusalsInANamespace) {
  const auto of = [](const std::string& rest) {
    return with(R"(,"tools":[{"type":"function","name":"n.f"},{"type":"namespace")" + rest + "}]");
  };
  const auto missing = ErrorCode::missing_field, invalid = ErrorCode::invalid_value;
  expect_refused(of(R"(,"tools":[])"), missing, "tools[1].name");
  expect_refused(of(R"(,"name":"a b","tools":[])"), invalid, "tools[1].name");
  expect_refused(of(R"(,"name":"n")"), missing, "tools[1].tools");
  expect_refused(of(R"(,"name":"n","tools":{})"), invalid, "tools[1].tools");
  expect_refused(of(R"(,"name":"n","description":[],"tools":[])"), invalid, "tools[1].description");
  expect_refused(of(R"(,"name":"n","tools":[7])"), invalid, "tools[1].tools[0]");
  expect_refused(of(R"(,"name":"n","tools":[{"type":"custom","name":"c"}])"), ErrorCode::unsupported_feature,
                 "tools[1].tools[0].type");
  expect_refused(of(R"(,"name":"n","tools":[{"type":"namespace","name":"c","tools":[]}])"),
                 ErrorCode::unsupported_feature, "tools[1].tools[0].type");
  expect_refused(of(R"(,"name":"n","tools":[{"type":"function"}])"), missing, "tools[1].tools[0].name");
  expect_refused(of(R"(,"name":"n","tools":[{"type":"function","name":"f"}])"), invalid,
                 "tools[1].tools[0].name");
  expect_refused(of(R"(,"name":"n","tools":[{"type":"function","name":")" +
                    std::string(kMaxToolNameBytes - 1, 'f') + "\"}]"),
                 invalid, "tools[1].tools[0].name");
  EXPECT_EQ(taken(of(R"(,"name":"n","tools":[],"x":1)")).unknown.refusal()->param, "tools[1].x");
  expect_refused(of(R"(,"name":"functions","tools":[])"), ErrorCode::unsupported_value, "tools[1].name");
  // One name by two cuts.
  expect_refused(
      with(R"(,"tools":[{"type":"namespace","name":"a","tools":[{"type":"function","name":"b.c"}]},)"
           R"({"type":"namespace","name":"a.b","tools":[{"type":"function","name":"c"}]}])"),
      invalid, "tools[1].tools[0].name");
  std::string many = R"({"type":"function","name":"f0"})";
  for (int i = 1; i < 1025; ++i) many += R"(,{"type":"function","name":"f)" + std::to_string(i) + "\"}";
  expect_refused(of(R"(,"name":"n2","tools":[)" + many + "]"), invalid, "tools[1].tools[1024]");
}

TEST(ResponsesTools, Refusals) {
  const auto invalid = ErrorCode::invalid_value;
  for (const char* type : {"web_search", "file_search", "computer", "code_interpreter", "image_generation",
                           "mcp", "local_shell", "shell", "apply_patch", "custom", "tool_search"}) {
    const std::string tool = R"({"type":")" + std::string(type) + "\"}";
    expect_refused(with(R"(,"tools":[)" + tool + "]"), ErrorCode::unsupported_feature, "tools[0].type");
    expect_refused(with_tools(R"(,"tool_choice":)" + tool), ErrorCode::unsupported_feature,
                   "tool_choice.type");
  }
  expect_refused(with(R"(,"tools":[{"type":"function","function":{"name":"f"}}])"),
                 ErrorCode::unsupported_value, "tools[0].function");
  expect_refused(with(R"(,"tools":[{"type":"function"}])"), ErrorCode::missing_field, "tools[0].name");
  expect_refused(with(R"(,"tools":[{"type":"function","name":"a b"}])"), invalid, "tools[0].name");
  expect_refused(with(R"(,"tools":[{"type":"function","name":"f","parameters":[]}])"), invalid,
                 "tools[0].parameters");
  expect_refused(with(R"(,"tools":[{"type":"function","name":"f","defer_loading":true}])"),
                 ErrorCode::unsupported_value, "tools[0].defer_loading");
  expect_refused(with(std::string(R"(,"tools":[)") + kClock + "," + kClock + "]"), invalid, "tools[1].name");
  expect_refused(with(R"(,"tools":{})"), invalid, "tools");
  expect_refused(with(R"(,"tool_choice":"required")"), invalid, "tool_choice");
  expect_refused(with_tools(R"(,"tool_choice":"some")"), invalid, "tool_choice");
  expect_refused(with_tools(R"(,"tool_choice":{"type":"function"})"), ErrorCode::missing_field,
                 "tool_choice.name");
  expect_refused(with_tools(R"(,"tool_choice":{"type":"function","name":"x"})"), invalid, "tool_choice.name");
  expect_refused(with_tools(R"(,"tool_choice":{"type":"allowed_tools","tools":[]})"), invalid,
                 "tool_choice.mode");
  expect_refused(with_tools(R"(,"parallel_tool_calls":1)"), invalid, "parallel_tool_calls");
  const Generate odd = taken(with_tools(
      R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"clock","mode":1}]})"));
  ASSERT_TRUE(odd.unknown.refusal());
  EXPECT_EQ(odd.unknown.refusal()->param, "tool_choice.tools[0].mode");
}

TEST(ResponsesTools, ManyAllowedToolsKeepTheOrderOfTheTools) {
  constexpr int kTools = 3000;
  std::string tools, allowed;
  for (int i = 0; i < kTools; ++i) {
    const std::string name = "\"f" + std::to_string(i) + "\"}";
    tools += (i > 0 ? "," : "") + (R"({"type":"function","name":)" + name);
    allowed = R"({"type":"function","name":)" + name + (i > 0 ? "," : "") + allowed;
  }
  const Generate all =
      taken(with(R"(,"tools":[)" + tools +
                 R"(],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[)" + allowed + "]}"));
  ASSERT_TRUE(all.tools);
  const json kept = json::parse(text_of(all.tools->tools));
  ASSERT_EQ(kept.size(), static_cast<std::size_t>(kTools));
  EXPECT_EQ(kept[1]["function"]["name"], "f1");
}

// ---- input ------------------------------------------------------------------------------------------------

TEST(ResponsesInput, MessagesOfEveryForm) {
  EXPECT_EQ(messages_of(with(R"(,"instructions":"Be brief.")")),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(
      messages_of(of_input(
          R"({"role":"user","content":"a"},
             {"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":null,
              "content":[{"type":"output_text","text":"b","annotations":[],"logprobs":[]},
                         {"type":"refusal","refusal":"c"}]},
             {"type":"message","role":"user","content":[{"type":"input_text","text":"d"},
                                                        {"type":"input_text","text":"e"}]})")),
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b\nc"},{"role":"user","content":"d\ne"}])");
}

TEST(ResponsesInput, TheHeadIsOneSystemMessage) {
  EXPECT_EQ(
      messages_of(of_input(
          R"({"role":"developer","content":"b"},{"role":"system","content":[{"type":"input_text","text":"c"}]},
                   {"role":"user","content":"d"},{"role":"developer","content":"e"})",
          R"(,"instructions":"a")")),
      R"([{"role":"system","content":"a\nb\nc"},{"role":"user","content":"d"},)"
      R"({"role":"system","content":"e"}])");
}

TEST(ResponsesInput, EmptySystemTextsAreNoMessage) {
  const std::string user = R"([{"role":"user","content":"Hi"}])";
  EXPECT_EQ(messages_of(with(R"(,"instructions":"")")), user);
  EXPECT_EQ(messages_of(of_input(R"({"role":"system","content":""},{"role":"user","content":"Hi"})",
                                 R"(,"instructions":"")")),
            user);
}

TEST(ResponsesInput, ReasoningMessageAndCallsAreOneTurn) {
  const std::string body = of_input(
      R"({"role":"user","content":"q"},
         {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
         {"role":"assistant","content":"Look."},
         {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}","id":"fc_1","status":"completed"},
         {"type":"function_call","call_id":"c2","name":"g","arguments":""},
         {"type":"function_call_output","call_id":"c2","output":"two"},
         {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"}]})");
  EXPECT_EQ(
      messages_of(body),
      R"([{"role":"user","content":"q"},{"role":"assistant","content":"Look.","reasoning_content":"hm",)"
      R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},)"
      R"({"role":"tool","tool_call_id":"c2","name":"g","content":"two"},)"
      R"({"role":"tool","tool_call_id":"c1","name":"f","content":"one"}])");
}

TEST(ResponsesInput, CallsHaveTheJoinedNamesOfTheirTools) {
  const json chat = json::parse(messages_of(
      of_input(R"({"type":"function_call","call_id":"a","namespace":"crm","name":"find","arguments":"{}"},)"
               R"({"type":"function_call_output","call_id":"a","output":"x"})")));
  EXPECT_EQ(chat[0]["tool_calls"][0]["function"]["name"], "crm.find");
  EXPECT_EQ(chat[1]["name"], "crm.find");
}

TEST(ResponsesInput, AMessageBehindAMessageBeginsATurn) {
  EXPECT_EQ(messages_of(of_input(R"({"role":"assistant","content":"a"},{"role":"assistant","content":"b"})")),
            R"([{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}])");
  EXPECT_EQ(
      messages_of(of_input(
          R"({"role":"assistant","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
             {"role":"assistant","content":"b"})")),
      R"([{"role":"assistant","content":"a\nb","tool_calls":[{"id":"c","type":"function",)"
      R"("function":{"name":"f","arguments":{}}}]}])");
}

TEST(ResponsesInput, ReasoningComesBackFromWhereverItWasKept) {
  const auto reasoning = [](const std::string& members) {
    return messages_of(
        of_input(R"({"type":"reasoning")" + members + R"(},{"role":"assistant","content":"x"})"));
  };
  const std::string told = R"([{"role":"assistant","content":"x","reasoning_content":"hm"}])";
  EXPECT_EQ(reasoning(R"(,"content":[{"type":"reasoning_text","text":"hm"}],"summary":[])"), told);
  EXPECT_EQ(reasoning(R"(,"encrypted_content":"flyball:hm","summary":[{"type":"summary_text","text":"s"}])"),
            told);
  EXPECT_EQ(reasoning(R"(,"encrypted_content":"gAAAA","summary":[{"type":"summary_text","text":"hm"}])"),
            told);
  EXPECT_EQ(reasoning(R"(,"encrypted_content":"gAAAA","summary":[])"),
            R"([{"role":"assistant","content":"x"}])");
}

TEST(ResponsesInput, PicturesInOutputsAreLeftOutAndSaidSo) {
  const Generate request = taken(of_input(
      R"({"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},
          {"type":"input_image","image_url":"data:x","detail":"auto"},{"type":"input_file","file_id":"f"}]})"));
  EXPECT_EQ(text_of(prompt_of(request).messages),
            R"([{"role":"tool","tool_call_id":"c","content":"a\n[image left out]\n[file left out]"}])");
  EXPECT_EQ(request.note, "Images and files in outputs of calls are left out: models read text here.");
  EXPECT_FALSE(request.unknown.refusal());
}

TEST(ResponsesInput, ArgumentsThatAreNoObjectStayText) {
  const Generate request =
      taken(of_input(R"({"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\""})"));
  EXPECT_EQ(text_of(prompt_of(request).messages),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",)"
            R"("function":{"name":"f","arguments":"{\"a\""}}]}])");
  EXPECT_NE(request.note.find("input[0].arguments is not readable"), std::string::npos);
}

TEST(ResponsesInput, Refusals) {
  const auto invalid = ErrorCode::invalid_value, required = ErrorCode::missing_field,
             feature = ErrorCode::unsupported_feature, unsupported = ErrorCode::unsupported_value;
  const auto part = [](const std::string& one) {
    return of_input(R"({"role":"user","content":[)" + one + "]}");
  };
  expect_refused(of_input("7"), invalid, "input[0]");
  expect_refused(of_input("{}"), required, "input[0].type");
  expect_refused(of_input(R"({"type":7})"), invalid, "input[0].type");
  expect_refused(of_input(R"({"type":"item_reference","id":"x"})"), feature, "input[0].type");
  expect_refused(of_input(R"({"type":"web_search_call","id":"x"})"), unsupported, "input[0].type");
  expect_refused(of_input(R"({"type":"message","content":"x"})"), required, "input[0].role");
  expect_refused(of_input(R"({"role":"tool","content":"x"})"), invalid, "input[0].role");
  expect_refused(of_input(R"({"role":"user"})"), required, "input[0].content");
  expect_refused(of_input(R"({"role":"user","content":7})"), invalid, "input[0].content");
  expect_refused(part(R"({"type":"input_image","image_url":"x"})"), feature, "input[0].content[0].type");
  expect_refused(part(R"({"type":"input_file","file_id":"x"})"), feature, "input[0].content[0].type");
  expect_refused(part(R"({"type":"input_audio"})"), feature, "input[0].content[0].type");
  expect_refused(part(R"({"type":"refusal","refusal":"x"})"), unsupported, "input[0].content[0].type");
  expect_refused(part(R"({"type":"input_text"})"), required, "input[0].content[0].text");
  expect_refused(part("{}"), invalid, "input[0].content[0]");
  expect_refused(of_input(R"({"type":"function_call","name":"f","arguments":"{}"})"), required,
                 "input[0].call_id");
  expect_refused(of_input(R"({"type":"function_call","call_id":"c","arguments":"{}"})"), required,
                 "input[0].name");
  expect_refused(of_input(R"({"type":"function_call","call_id":"c","name":"","arguments":"{}"})"), invalid,
                 "input[0].name");
  expect_refused(of_input(R"({"type":"function_call","call_id":"c","name":"f"})"), required,
                 "input[0].arguments");
  expect_refused(of_input(R"({"type":"function_call","call_id":"c","name":"f","arguments":{}})"), invalid,
                 "input[0].arguments");
  expect_refused(
      of_input(R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":7})"),
      invalid, "input[0].namespace");
  expect_refused(
      of_input(R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":")" +
               std::string(kMaxToolNameBytes, 'n') + "\"}"),
      invalid, "input[0].name");
  expect_refused(
      of_input(R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":")" +
               std::string(kMaxToolNameBytes + 1, 'n') + "\"}"),
      invalid, "input[0].namespace");
  expect_refused(of_input(R"({"type":"function_call_output","output":"x"})"), required, "input[0].call_id");
  expect_refused(of_input(R"({"type":"function_call_output","call_id":"c"})"), required, "input[0].output");
  expect_refused(of_input(R"({"type":"reasoning","summary":[{"type":"input_text","text":"x"}]})"),
                 unsupported, "input[0].summary[0].type");
  expect_refused(of_input(R"({"type":"reasoning","encrypted_content":7})"), invalid,
                 "input[0].encrypted_content");
  EXPECT_EQ(taken(part(R"({"type":"input_text","text":"x","txet":1})")).unknown.refusal()->param,
            "input[0].content[0].txet");
  EXPECT_EQ(taken(of_input(R"({"role":"user","content":"x","name":"n"})")).unknown.refusal()->param,
            "input[0].name");
  std::string many = R"({"role":"user","content":"x"})";
  for (std::size_t i = 0; i < kMaxMessages; ++i) many += R"(,{"role":"user","content":"x"})";
  expect_refused(of_input(many), invalid, "input");
}

// ---- the table --------------------------------------------------------------------------------------------

TEST(ResponsesFieldTable, HasEachNameOnce) {
  std::set<std::pair<FieldOf, std::string>> seen;
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : names_of(group)) EXPECT_TRUE(seen.emplace(group.of, name).second) << name;
  for (const Parameter& p : field_table().parameters())
    EXPECT_TRUE(seen.emplace(p.of, std::string(p.name)).second) << p.name;
}

TEST(ResponsesFieldTable, FieldsOfTheBodyDoAsTheirRowsSay) {
  for (const FieldGroup& group : field_table().groups()) {
    if (group.of != FieldOf::body || group.use == FieldUse::served) continue;
    for (const std::string& name : names_of(group)) {
      const auto out = read(with(",\"" + name + R"(":[{"no":1}])"));
      if (group.use == FieldUse::accepted) {
        ASSERT_TRUE(out) << name;
        EXPECT_FALSE(out->unknown.refusal()) << name;
        continue;
      }
      ASSERT_FALSE(out) << name;
      EXPECT_EQ(out.error().param, name);
      for (const json& nothing : json::parse(group.asks_for_nothing))
        EXPECT_TRUE(read(with(",\"" + name + "\":" + nothing.dump()))) << name << ": " << nothing;
    }
  }
}

TEST(docs, responses) {
  std::ifstream in(std::string(FLYBALL_SOURCE_DIR) + "/docs/responses.md", std::ios::binary);
  const std::string doc{std::istreambuf_iterator<char>(in), {}};
  std::string lines;
  for (const Parameter& p : field_table().parameters()) lines += row_of(p, std::string(to_string(p.of)));
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/responses.md lacks:\n" << lines;
  lines.clear();
  for (const FieldGroup& group : field_table().groups()) lines += row_of(group, "create");
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/responses.md lacks:\n" << lines;
}

}  // namespace
}  // namespace flyball::api::openai::responses
