// Bodies that the official schemas refuse, through the real router: each served field of each API with a
// value of every JSON type, each parameter beyond its range, and words that no enumeration has. All are 400
// in the API's own shape, with the field as `param`, or in the message where the API has no `param`.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/api/anthropic/field_table.hpp"
#include "daemon/api/ollama/field_table.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/parameters.hpp"
#include "tests/daemon/api/wire.hpp"

namespace flyball::testing {
namespace {

using api::FieldOf;
using nlohmann::json;

// A value of each JSON type but null, with a content that no field wants. A field takes a probe where the
// type alone counts.
struct Probe {
  char letter;
  const char* value;
};
constexpr std::array kProbes{Probe{'s', R"("?!")"}, Probe{'n', "0.5"}, Probe{'b', "true"}, Probe{'a', "[[]]"},
                             Probe{'o', R"({"?":1})"}};

// The letters of the probes that a served field takes. A field without a row here takes none.
struct Takes {
  FieldOf of;
  const char *names, *letters;  // names: separated by blanks
};
// Texts and numbers, flags, and what is the client's own.
const std::vector<Takes> kOpenAiTakes{
    {FieldOf::body, "model prompt suffix stop", "s"},
    {FieldOf::body, "parallel_tool_calls add_generation_prompt add_special_tokens add_special", "b"},
    {FieldOf::body, "chat_template_kwargs guided_json json_schema", "o"},
    {FieldOf::stream_options, "include_usage", "b"},
    {FieldOf::json_schema, "schema", "o"},
    {FieldOf::structured_outputs, "json", "o"},
    {FieldOf::structured_outputs, "json_object disable_any_whitespace", "b"},
    {FieldOf::message,
     "content name tool_call_id refusal reasoning_content reasoning thinking tool_plan tool_name", "s"},
    {FieldOf::message, "tool_responses", "snbao"},  // a template's own
    {FieldOf::part, "text", "s"},
    {FieldOf::part, "refusal", "snbao"},  // of another type of part: it is not read
    {FieldOf::call, "id", "s"},
    {FieldOf::called_function, "name", "s"},
    {FieldOf::called_function, "arguments", "so"},
    {FieldOf::called_function, "description", "snbao"},  // a template's own, as the next but one
    {FieldOf::tool_function, "description", "s"},
    {FieldOf::tool_function, "return", "snbao"},
    {FieldOf::tool_function, "parameters", "o"},
    {FieldOf::tool, "strict", "b"},
    {FieldOf::tool_function, "strict", "b"},
    {FieldOf::tool_choice, "allowed_tools", "snbao"},  // not read where the type is `function`
};
const std::vector<Takes> kAnthropicTakes{
    {FieldOf::body, "model system", "s"},
    {FieldOf::message, "content", "s"},
    {FieldOf::part, "text thinking id name tool_use_id", "s"},
    {FieldOf::part, "content", "s"},
    {FieldOf::part, "input", "o"},
    {FieldOf::part, "is_error", "b"},
    {FieldOf::tool, "description", "s"},
    {FieldOf::tool, "input_schema", "o"},
    {FieldOf::tool, "strict", "b"},
    {FieldOf::tool_choice, "disable_parallel_tool_use", "b"},
    {FieldOf::output_format, "schema", "o"},
};
const std::vector<Takes> kOllamaTakes{
    {FieldOf::body, "model prompt suffix system", "s"},
    {FieldOf::body, "think raw", "b"},
    {FieldOf::options, "penalize_newline", "b"},
    {FieldOf::body, "format", "o"},
    {FieldOf::options, "stop", "s"},
    {FieldOf::message, "content name thinking tool_name tool_call_id", "s"},
    {FieldOf::part, "text", "s"},
    {FieldOf::call, "id", "s"},
    {FieldOf::called_function, "name", "s"},
    {FieldOf::called_function, "arguments", "so"},
    {FieldOf::called_function, "description", "snbao"},
    {FieldOf::tool_function, "description", "s"},
    {FieldOf::tool_function, "parameters", "o"},
};

// Fields without which their object means nothing: the refusal may name the object.
bool may_name_object(FieldOf of, std::string_view field) {
  switch (of) {
    case FieldOf::part:
    case FieldOf::tool:
    case FieldOf::tool_choice:
    case FieldOf::output_format:
      return field == "type";
    case FieldOf::called_function:
    case FieldOf::tool_function:
    case FieldOf::chosen_function:
      return field == "name";
    default:
      return false;
  }
}

// A place in a valid body whose members are those of the table.
struct Object {
  FieldOf of;
  const char* place;  // "messages[0]"
  const char* body;
  const char* only = "";  // the members that are looked at there; "": all
};

struct Endpoint {
  const char *name, *path;
  const api::FieldTable& (*table)();
  api::Endpoints bit;
  const char* common;  // the members that every body has
  const std::vector<Takes>& takes;
  std::vector<Object> objects;
};
void PrintTo(const Endpoint& endpoint, std::ostream* out) {
  *out << endpoint.name;
}
json body_of(const Endpoint& endpoint, const Object& object) {
  json out = json::parse(endpoint.common);
  out.update(json::parse(object.body));
  return out;
}

constexpr const char* kPlain = R"({"messages":[{"role":"user","content":"Hi"}]})";
constexpr const char* kCalls = R"({"messages":[
    {"role":"assistant","content":[{"type":"text","text":"Hi"}],
     "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"c","content":"1"},{"role":"user","content":"Hi"}],
    "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
    "tool_choice":{"type":"function","function":{"name":"f"}}})";
constexpr const char* kAllowed = R"({"messages":[{"role":"user","content":"Hi"}],
    "tools":[{"type":"function","function":{"name":"f"}}],
    "tool_choice":{"type":"allowed_tools",
      "allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}})";
constexpr const char* kStreamed = R"({"stream":true,"stream_options":{}})";
constexpr const char* kSchema = R"({
    "response_format":{"type":"json_schema","json_schema":{"schema":{}}}})";
constexpr const char* kStructured = R"({"structured_outputs":{}})";
constexpr const char* kBlocks =
    R"({"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":""},
     {"type":"tool_use","id":"a","name":"f","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}],
    "tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},
    "thinking":{"type":"disabled"},"output_config":{}})";
constexpr const char* kFormat = R"({
    "output_format":{"type":"json_schema","schema":{}}})";
constexpr const char* kTurns = R"({"stream":false,"options":{},"messages":[
    {"role":"assistant","content":[{"type":"text","text":"Hi"}],
     "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},
    {"role":"tool","content":"1"},{"role":"user","content":"Hi"}],
    "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]})";

std::vector<Object> constrained_bodies() {
  return {{FieldOf::body, "", "{}"},
          {FieldOf::stream_options, "stream_options", kStreamed},
          {FieldOf::response_format, "response_format", kSchema},
          {FieldOf::json_schema, "response_format.json_schema", kSchema},
          {FieldOf::structured_outputs, "structured_outputs", kStructured}};
}

std::vector<Endpoint> endpoints() {
  std::vector<Object> chat = constrained_bodies();
  chat.insert(chat.end(), {{FieldOf::message, "messages[0]", kCalls},
                           {FieldOf::part, "messages[0].content[0]", kCalls},
                           {FieldOf::call, "messages[0].tool_calls[0]", kCalls},
                           {FieldOf::called_function, "messages[0].tool_calls[0].function", kCalls},
                           {FieldOf::tool, "tools[0]", kCalls},
                           {FieldOf::tool_function, "tools[0].function", kCalls},
                           {FieldOf::tool_choice, "tool_choice", kCalls},
                           {FieldOf::chosen_function, "tool_choice.function", kCalls},
                           {FieldOf::allowed_tools, "tool_choice.allowed_tools", kAllowed}});
  const std::vector<Object> messages{
      {FieldOf::body, "", "{}"},
      {FieldOf::message, "messages[0]", kBlocks},
      {FieldOf::part, "messages[0].content[0]", kBlocks, "type text"},
      {FieldOf::part, "messages[1].content[0]", kBlocks, "thinking"},
      {FieldOf::part, "messages[1].content[1]", kBlocks, "id name input"},
      {FieldOf::part, "messages[2].content[0]", kBlocks, "tool_use_id content is_error"},
      {FieldOf::tool, "tools[0]", kBlocks},
      {FieldOf::tool_choice, "tool_choice", kBlocks},
      {FieldOf::thinking, "thinking", kBlocks},
      {FieldOf::output_config, "output_config", kBlocks},
      {FieldOf::output_format, "output_format", kFormat, "type schema"}};
  const std::vector<Object> plain{{FieldOf::body, "", "{}"}};
  const std::vector<Object> turns{{FieldOf::body, "", "{}"},
                                  {FieldOf::options, "options", kTurns},
                                  {FieldOf::message, "messages[0]", kTurns},
                                  {FieldOf::part, "messages[0].content[0]", kTurns},
                                  {FieldOf::call, "messages[0].tool_calls[0]", kTurns},
                                  {FieldOf::called_function, "messages[0].tool_calls[0].function", kTurns},
                                  {FieldOf::tool, "tools[0]", kTurns},
                                  {FieldOf::tool_function, "tools[0].function", kTurns}};
  using namespace api;
  constexpr const char* kPrompt = R"({"prompt":"Hi"})";
  return {{"chat_completions", "/v1/chat/completions", &openai::field_table, openai::kChat, kPlain,
           kOpenAiTakes, chat},
          {"completions", "/v1/completions", &openai::field_table, openai::kCompletions, kPrompt,
           kOpenAiTakes, constrained_bodies()},
          {"tokenize", "/tokenize", &openai::field_table, openai::kTokenize, kPrompt, kOpenAiTakes, plain},
          {"detokenize", "/detokenize", &openai::field_table, openai::kDetokenize, R"({"tokens":[1]})",
           kOpenAiTakes, plain},
          {"messages", "/v1/messages", &anthropic::field_table, anthropic::kMessages,
           R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]})", kAnthropicTakes, messages},
          {"count_tokens", "/v1/messages/count_tokens", &anthropic::field_table, anthropic::kCountTokens,
           kPlain, kAnthropicTakes, messages},
          {"ollama_chat", "/api/chat", &ollama::field_table, ollama::kChat, kPlain, kOllamaTakes, turns},
          {"ollama_generate",
           "/api/generate",
           &ollama::field_table,
           ollama::kGenerate,
           R"({"prompt":"Hi","stream":false})",
           kOllamaTakes,
           {{FieldOf::body, "", "{}"}, {FieldOf::options, "options", R"({"options":{}})"}}}};
}

// The letters of the probes that the field takes: a parameter's by its type, where any value of it is served.
std::string taken(const Endpoint& endpoint, FieldOf of, std::string_view field) {
  for (const api::Parameter& p : endpoint.table().parameters()) {
    if (p.of != of || p.name != field || (p.endpoints & endpoint.bit) == 0) continue;
    if (p.fallback.contains("not served") || type_name(p) == "integer") return "";
    return type_name(p) == "boolean" ? "b" : "n";
  }
  std::string out;
  for (const Takes& row : endpoint.takes)
    if (row.of == of && (' ' + std::string(row.names) + ' ').contains(' ' + std::string(field) + ' '))
      out += row.letters;
  return out;
}

bool has_word(std::string_view words, std::string_view word) {
  return (' ' + std::string(words) + ' ').contains(' ' + std::string(word) + ' ');
}

// "messages[0].content" as a JSON pointer.
json::json_pointer pointer_to(const std::string& place) {
  std::string out;
  for (const char c : place)
    if (c == '.' || c == '[')
      out += '/';
    else if (c != ']')
      out += c;
  return json::json_pointer(place.empty() ? "" : '/' + out);
}

struct WrongTypes : ::testing::TestWithParam<Endpoint> {
  Rig rig;

  Answer ask(const json& body) {
    Wire wire(rig);
    wire.send(post(GetParam().path, body.dump()));
    return wire.answer();
  }

  // The refusal's place. nullopt: the body's form is right, and it is answered with `taken`.
  std::optional<std::string> refused_at(const json& body, int taken = 200) {
    const Answer answer = ask(body);
    if (answer.status != 400) {
      EXPECT_EQ(answer.status, taken) << body << answer.body;
      return std::nullopt;
    }
    const json told = json::parse(answer.body, nullptr, false);
    const std::string path = GetParam().path;
    EXPECT_TRUE(told.is_object() && told.contains("error")) << answer.body;
    if (!told.is_object() || !told.contains("error")) return "";
    const json& error = told["error"];
    if (path.starts_with("/api/")) {  // Ollama's error is its message, which quotes the place
      EXPECT_TRUE(error.is_string() && told.size() == 1) << answer.body;
      const std::string message = error.is_string() ? error.get<std::string>() : "";
      const auto begin = message.find('\'');
      return begin == std::string::npos
                 ? message
                 : message.substr(begin + 1, message.find('\'', begin + 1) - begin - 1);
    }
    EXPECT_EQ(told.value("type", ""), path.starts_with("/v1/messages") ? "error" : "") << answer.body;
    EXPECT_EQ(error.value("type", ""), "invalid_request_error") << answer.body;
    EXPECT_FALSE(error.value("message", "").empty()) << answer.body;
    EXPECT_TRUE(error["param"].is_string()) << answer.body;
    return error["param"].is_string() ? error["param"].get<std::string>() : "";
  }

  // `body` is refused at `place` or within it, or at `object`.
  void expect_refused(const json& body, const std::string& place,
                      const std::optional<std::string>& object = {}) {
    const auto at = refused_at(body);
    const bool within =
        at && at->starts_with(place) &&
        (at->size() == place.size() || (*at)[place.size()] == '.' || (*at)[place.size()] == '[');
    EXPECT_TRUE(within || (object && at == object))
        << place << " in " << body << ": " << at.value_or("not refused");
  }
};

TEST_P(WrongTypes, AreRefusedAtTheField) {
  const Endpoint& endpoint = GetParam();
  for (const Object& object : endpoint.objects) {
    const json whole = body_of(endpoint, object);
    ASSERT_EQ(ask(whole).status, 200) << whole << ask(whole).body;
    for (const std::string_view field : endpoint.table().names(object.of, endpoint.bit)) {
      const auto* const group = endpoint.table().find(object.of, endpoint.bit, field);
      if (group->use != api::FieldUse::served || (*object.only != '\0' && !has_word(object.only, field)))
        continue;
      const std::string takes = taken(endpoint, object.of, field);
      std::string place = (*object.place == '\0' ? "" : std::string(object.place) + ".") + std::string(field);
      // Its members are judged together: a further schema is refused beside the first.
      if (object.of == FieldOf::response_format) place = object.place;
      std::optional<std::string> object_place;
      if (may_name_object(object.of, field)) object_place = object.place;
      // A model that no app has is not found.
      const int served = object.of == FieldOf::body && field == "model" ? 404 : 200;
      for (const Probe& probe : kProbes) {
        json body = whole;
        body[pointer_to(object.place)][std::string(field)] = json::parse(probe.value);
        if (takes.contains(probe.letter))
          EXPECT_EQ(refused_at(body, served), std::nullopt) << place << " in " << body;
        else
          expect_refused(body, place, object_place);
      }
      json absent = whole, null = whole;
      absent[pointer_to(object.place)].erase(std::string(field));
      null[pointer_to(object.place)][std::string(field)] = nullptr;
      EXPECT_EQ(refused_at(null), refused_at(absent)) << place << " is null in " << null;
    }
  }
}

TEST_P(WrongTypes, ParametersBeyondTheirRangeAreRefused) {
  const Endpoint& endpoint = GetParam();
  for (const api::Parameter& p : endpoint.table().parameters()) {
    if ((p.endpoints & endpoint.bit) == 0 || type_name(p) == "boolean") continue;
    const auto object = std::ranges::find(endpoint.objects, p.of, &Object::of);
    ASSERT_NE(object, endpoint.objects.end()) << p.name;
    const std::string place =
        (*object->place == '\0' ? "" : std::string(object->place) + ".") + std::string(p.name);
    for (const double value : {p.min - 7, p.max + 7, -1e300, 1e300}) {
      json body = body_of(endpoint, *object);
      body[pointer_to(object->place)][std::string(p.name)] = value;
      expect_refused(body, place);
    }
    if (type_name(p) != "integer") continue;
    json body = body_of(endpoint, *object);
    body[pointer_to(object->place)][std::string(p.name)] = p.min + 0.5;
    expect_refused(body, place);
  }
}

INSTANTIATE_TEST_SUITE_P(Apis, WrongTypes, ::testing::ValuesIn(endpoints()),
                         [](const auto& one) { return std::string(one.param.name); });

// Members that no API's object has are refused at every depth.
TEST_P(WrongTypes, UnknownMembersAreRefusedWithTheirPlace) {
  const Endpoint& endpoint = GetParam();
  for (const Object& object : endpoint.objects) {
    json body = body_of(endpoint, object);
    body[pointer_to(object.place)]["no_such_member"] = 1;
    const Answer answer = ask(body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.body.find("no_such_member"), std::string::npos) << body << answer.body;
  }
}

}  // namespace
}  // namespace flyball::testing
