// Bodies of the Responses API to typed requests, its input to a chat, answers in its shape, and the document
// that lists its fields.
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
#include "daemon/api/openai/responses_writer.hpp"
#include "daemon/api/suit_to_model.hpp"
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

constexpr const char* kWeather =
    R"({"type":"function","name":"weather","description":"d","parameters":{"type":"object"},"strict":true})";
constexpr const char* kClock = R"({"type":"function","name":"clock","parameters":null})";

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

constexpr const char* kAgents =
    R"({"type":"namespace","name":"agents","description":"Other agents.","tools":[)"
    R"({"type":"function","name":"spawn","description":"Begins one.","parameters":{"type":"object"},"strict":true},)"
    R"({"type":"function","name":"close"}]})";

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

// ---- answers ----------------------------------------------------------------------------------------------

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
