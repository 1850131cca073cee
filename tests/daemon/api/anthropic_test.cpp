// Bodies of Anthropic's clients to typed requests, answers in Anthropic's shape, and the document that lists
// the fields.
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/anthropic/billing_line.hpp"
#include "daemon/api/anthropic/errors.hpp"
#include "daemon/api/anthropic/field_table.hpp"
#include "daemon/api/anthropic/models.hpp"
#include "daemon/api/anthropic/request.hpp"
#include "daemon/api/anthropic/writer.hpp"
#include "daemon/api/chat_history.hpp"
#include "daemon/api/error_table.hpp"
#include "daemon/api/suit_to_model.hpp"
#include "tests/daemon/api/table_rows.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::anthropic {
namespace {

using nlohmann::json;
using test::text_of;

// A value that no field takes, nor asks for nothing.
constexpr const char* kOdd = R"([{"no":1}])";
constexpr std::string_view kBilling =
    "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;";

Result<Generate> read(const std::string& text) {
  const auto body = read_packed(text);
  if (!body) return std::unexpected(body.error());
  return parse_messages(body->view());
}

std::string with(const std::string& members) {
  return R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}])" + members + "}";
}
std::string of_messages(const std::string& messages, const std::string& members = "") {
  return R"({"model":"m","max_tokens":9,"messages":[)" + messages + "]" + members + "}";
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

const ChatPrompt& prompt_of(const Generate& request) {
  return std::get<ChatPrompt>(request.prompts.front());
}
std::string messages_of(const std::string& body) {
  const Generate request = taken(body);
  return request.prompts.empty() ? "" : text_of(prompt_of(request).messages);
}

// The settings that a field may change, as a text.
std::string settings_of(const Generate& request) {
  const SamplingParams& s = request.base.sampling;
  const json out{s.temperature,
                 s.top_k,
                 s.top_p,
                 request.base.max_tokens,
                 request.base.stop,
                 text_of(prompt_of(request).tools),
                 text_of(prompt_of(request).template_args)};
  return out.dump();
}

TEST(AnthropicRequest, SettingsAndDefaults) {
  const Generate plain = taken(with(""));
  EXPECT_EQ(plain.model, "m");
  EXPECT_FALSE(plain.stream);
  EXPECT_EQ(plain.base.max_tokens, 9U);
  EXPECT_EQ(plain.base.sampling.temperature, 1.0F);
  EXPECT_EQ(plain.base.sampling.top_k, 0);
  EXPECT_EQ(plain.base.sampling.top_p, 1.0F);
  EXPECT_FALSE(plain.seeded);
  EXPECT_FALSE(plain.tools);
  EXPECT_EQ(text_of(prompt_of(plain).messages), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(text_of(prompt_of(plain).template_args), R"({"enable_thinking":false,"thinking":false})");

  const Generate all = taken(with(
      R"(,"stream":true,"temperature":0.5,"top_p":0.25,"top_k":3,"stop_sequences":["a","b"],
          "metadata":{"user_id":"u"},"service_tier":"auto","cache_control":{"type":"ephemeral"})"));
  EXPECT_EQ(all.stream, StreamFraming::sse);
  EXPECT_EQ(all.base.sampling.temperature, 0.5F);
  EXPECT_EQ(all.base.sampling.top_p, 0.25F);
  EXPECT_EQ(all.base.sampling.top_k, 3);
  EXPECT_EQ(all.base.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(all.unknown.refusal());
  EXPECT_EQ(all.prompt_bytes, prompt_of(all).messages.json_bytes());
}

TEST(AnthropicRequest, RequiresMaxTokensAndMessages) {
  const Error none = error_of(R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(none.code, ErrorCode::missing_field);
  EXPECT_EQ(none.param, "max_tokens");
  EXPECT_EQ(error_of(R"({"model":"m","max_tokens":1})").param, "messages");
  EXPECT_EQ(error_of(of_messages("")).param, "messages");
  EXPECT_EQ(error_of("[]").code, ErrorCode::invalid_value);
}

TEST(AnthropicRequest, SystemComesFirst) {
  EXPECT_EQ(messages_of(with(R"(,"system":"Be brief.")")),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(messages_of(with(
                R"(,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}},
                              {"type":"text","text":"b"}])")),
            R"([{"role":"system","content":"a\nb"},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(messages_of(with(R"(,"system":"")")), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(error_of(with(R"(,"system":7)")).param, "system");
  EXPECT_EQ(error_of(with(R"(,"system":[{"type":"image"}])")).param, "system[0].type");
  EXPECT_EQ(messages_of(of_messages(
                R"({"role":"user","content":"a"},{"role":"system","content":[{"type":"text","text":"b"}]})")),
            R"([{"role":"user","content":"a"},{"role":"system","content":"b"}])");
}

TEST(AnthropicRequest, LeavesOutTheBillingLine) {
  const std::string block = R"({"type":"text","text":")" + std::string(kBilling) + R"("})";
  const Generate code =
      taken(with(R"(,"system":[)" + block + R"(,{"type":"text","text":"You are Claude Code."}])"));
  EXPECT_EQ(text_of(prompt_of(code).messages),
            R"([{"role":"system","content":"You are Claude Code."},{"role":"user","content":"Hi"}])");
  EXPECT_NE(code.note.find("billing line"), std::string::npos) << code.note;
  const Generate alone = taken(with(R"(,"system":[)" + block + "]"));
  EXPECT_EQ(text_of(prompt_of(alone).messages), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(taken(with(R"(,"system":"x")")).note, "");

  const std::string line(kBilling);
  EXPECT_EQ(without_billing_line(line), "");
  EXPECT_EQ(without_billing_line(line + "\nrest\nof it"), "rest\nof it");
  EXPECT_EQ(without_billing_line("a\n" + line), "a\n" + line);
  EXPECT_EQ(without_billing_line(""), "");
}

TEST(AnthropicRequest, CallsAndResultsBecomeTurnsOfTheCommonForm) {
  EXPECT_EQ(
      messages_of(of_messages(R"(
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},
        {"type":"text","text":"Let me look."},
        {"type":"tool_use","id":"t1","name":"weather","input":{"city":"Bern","days":2},"caller":{"type":"direct"}},
        {"type":"tool_use","id":"t2","name":"clock","input":{}}]},
      {"role":"user","content":[
        {"type":"text","text":"And?"},
        {"type":"tool_result","tool_use_id":"t1","content":"sunny"},
        {"type":"tool_result","tool_use_id":"t2","is_error":true,
         "content":[{"type":"text","text":"no"},{"type":"text","text":"clock"}]},
        {"type":"tool_result","tool_use_id":"t3"}]})")),
      R"([{"role":"user","content":"a\nb"},)"
      R"({"role":"assistant","content":"Let me look.","reasoning_content":"hm","tool_calls":[)"
      R"({"id":"t1","type":"function","function":{"name":"weather","arguments":{"city":"Bern","days":2}}},)"
      R"({"id":"t2","type":"function","function":{"name":"clock","arguments":{}}}]},)"
      R"({"role":"tool","tool_call_id":"t1","name":"weather","content":"sunny"},)"
      R"({"role":"tool","tool_call_id":"t2","name":"clock","content":"Error: no\nclock"},)"
      R"({"role":"tool","tool_call_id":"t3","content":""},)"
      R"({"role":"user","content":"And?"}])");
  EXPECT_EQ(messages_of(of_messages(R"({"role":"user","content":[]})")), R"([{"role":"user","content":""}])");
}

TEST(AnthropicRequest, BlocksAreRefusedByTheirPlace) {
  const auto refused = [](const std::string& block, const char* role = "user") {
    return error_of(of_messages(R"({"role":"user","content":"a"},{"role":")" + std::string(role) +
                                R"(","content":[{"type":"text","text":"a"},)" + block + "]}"));
  };
  const Error image = refused(R"({"type":"image","source":{"type":"base64"}})");
  EXPECT_EQ(image.code, ErrorCode::unsupported_feature);
  EXPECT_EQ(image.param, "messages[1].content[1].type");
  EXPECT_EQ(refused(R"({"type":"document","source":{}})").code, ErrorCode::unsupported_feature);
  EXPECT_EQ(refused(R"({"type":"tool_use","id":"a","name":"b","input":{}})").code,
            ErrorCode::unsupported_value);
  EXPECT_EQ(refused(R"({"type":"tool_result","tool_use_id":"a","content":[{"type":"audio"}]})").param,
            "messages[1].content[1].content[0].type");
  EXPECT_EQ(refused(R"({"type":"tool_result"})").param, "messages[1].content[1].tool_use_id");
  EXPECT_EQ(refused(R"({"type":"tool_result","tool_use_id":"a","is_error":1})").param,
            "messages[1].content[1].is_error");
  EXPECT_EQ(refused(R"({"type":"text"})").code, ErrorCode::missing_field);
  EXPECT_EQ(refused(R"({"type":"text","text":1})").param, "messages[1].content[1].text");
  EXPECT_EQ(refused(R"({"text":"a"})").param, "messages[1].content[1]");
  EXPECT_EQ(refused(R"({"type":"tool_result","tool_use_id":"a"})", "assistant").param,
            "messages[1].content[1].type");
  EXPECT_EQ(refused(R"({"type":"server_tool_use"})", "assistant").param, "messages[1].content[1].type");
  EXPECT_EQ(refused(R"({"type":"thinking"})", "assistant").param, "messages[1].content[1].thinking");
  EXPECT_EQ(refused(R"({"type":"tool_use","name":"b"})", "assistant").param, "messages[1].content[1].id");
  EXPECT_EQ(refused(R"({"type":"tool_use","id":"a"})", "assistant").param, "messages[1].content[1].name");
  EXPECT_EQ(refused(R"({"type":"tool_use","id":"a","name":""})", "assistant").param,
            "messages[1].content[1].name");
  EXPECT_EQ(refused(R"({"type":"tool_use","id":"a","name":"b","input":"{}"})", "assistant").param,
            "messages[1].content[1].input");
  EXPECT_EQ(error_of(of_messages(R"({"role":"tool","content":"a"})")).param, "messages[0].role");
  EXPECT_EQ(error_of(of_messages(R"({"content":"a"})")).code, ErrorCode::missing_field);
  EXPECT_EQ(error_of(of_messages(R"({"role":"user"})")).param, "messages[0].content");
  EXPECT_EQ(error_of(of_messages(R"({"role":"user","content":7})")).param, "messages[0].content");
  EXPECT_EQ(error_of(of_messages("7")).param, "messages[0]");
}

TEST(AnthropicRequest, PicturesInResultsAreLeftOut) {
  const Generate request =
      taken(of_messages(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[)"
                        R"({"type":"text","text":"seen"},{"type":"image","source":{"type":"base64"}},)"
                        R"({"type":"document","source":{}}]}]})"));
  EXPECT_EQ(
      text_of(prompt_of(request).messages),
      R"([{"role":"tool","tool_call_id":"a","content":"seen\n[image left out]\n[document left out]"}])");
  EXPECT_EQ(request.note, "Images and documents in results of tools are left out: models read text here.");
}

TEST(AnthropicRequest, AnAnswerGoesOnWithNoMessage) {
  const Error prefill =
      error_of(of_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":"{"})"));
  EXPECT_EQ(prefill.code, ErrorCode::unsupported_value);
  EXPECT_EQ(prefill.param, "messages[1].role");
}

TEST(AnthropicRequest, BoundsMessagesAndResultsTogether) {
  std::string results;
  for (std::size_t i = 0; i <= kMaxMessages; ++i)
    results += (i > 0 ? "," : "") + std::string(R"({"type":"tool_result","tool_use_id":"a"})");
  EXPECT_EQ(error_of(of_messages(R"({"role":"user","content":[)" + results + "]}")).param, "messages");
}

constexpr const char* kWeather =
    R"({"name":"weather","description":"Tells it.","input_schema":{"type":"object","properties":{"b":{},"a":{}}},)"
    R"("type":"custom","cache_control":{"type":"ephemeral"},"input_examples":[{}]})";

TEST(AnthropicRequest, ToolsReachTheTemplateInTheCommonForm) {
  const std::string tools =
      R"(,"tools":[)" + std::string(kWeather) + R"(,{"name":"clock","input_schema":{}}])";
  const Generate request = taken(with(tools));
  EXPECT_TRUE(request.has_tools);
  EXPECT_EQ(text_of(prompt_of(request).tools),
            R"([{"type":"function","function":{"name":"weather","description":"Tells it.","parameters":)"
            R"({"type":"object","properties":{"b":{},"a":{}}}}},)"
            R"({"type":"function","function":{"name":"clock","parameters":{}}}])");
  ASSERT_TRUE(request.tools);
  EXPECT_EQ(request.tools->tools.bytes(), prompt_of(request).tools.bytes());
  EXPECT_EQ(request.tools->choice, ToolSet::Choice::automatic);
  EXPECT_TRUE(request.tools->parallel);
  EXPECT_FALSE(request.tools->strict);
  EXPECT_FALSE(taken(with(R"(,"tools":[])")).tools);
  EXPECT_TRUE(
      taken(with(R"(,"tools":[{"name":"a","input_schema":{},"strict":true},{"name":"b","input_schema":{}}])"))
          .tools->strict);
}

TEST(AnthropicRequest, ToolChoices) {
  const auto chosen = [](const std::string& choice) {
    return taken(with(R"(,"tools":[)" + std::string(kWeather) + R"(],"tool_choice":)" + choice));
  };
  EXPECT_EQ(chosen(R"({"type":"auto"})").tools->choice, ToolSet::Choice::automatic);
  const Generate any = chosen(R"({"type":"any","disable_parallel_tool_use":true})");
  EXPECT_EQ(any.tools->choice, ToolSet::Choice::required);
  EXPECT_EQ(any.tools->named, "");
  EXPECT_FALSE(any.tools->parallel);
  EXPECT_EQ(chosen(R"({"type":"tool","name":"weather"})").tools->named, "weather");
  const Generate none = chosen(R"({"type":"none"})");
  EXPECT_FALSE(none.tools);
  EXPECT_FALSE(none.has_tools);
  EXPECT_TRUE(prompt_of(none).tools.empty());
  const auto refused = [](const std::string& choice, const std::string& tools = kWeather) {
    return error_of(with(R"(,"tools":[)" + tools + R"(],"tool_choice":)" + choice)).param;
  };
  EXPECT_EQ(refused(R"("auto")"), "tool_choice");
  EXPECT_EQ(refused(R"({"type":"must"})"), "tool_choice.type");
  EXPECT_EQ(refused(R"({"type":"tool"})"), "tool_choice.name");
  EXPECT_EQ(refused(R"({"type":"tool","name":"clock"})"), "tool_choice.name");
  EXPECT_EQ(refused(R"({"type":"any"})", ""), "tool_choice");
}

TEST(AnthropicRequest, ToolsThatClientsDoNotRunAreRefusedByName) {
  const auto refused = [](const std::string& tool) { return error_of(with(R"(,"tools":[)" + tool + "]")); };
  for (const char* type : {"web_search_20250305", "bash_20250124", "text_editor_20250728"}) {
    const Error error = refused(R"({"type":")" + std::string(type) + R"(","name":"n"})");
    EXPECT_EQ(error.code, ErrorCode::unsupported_value);
    EXPECT_EQ(error.param, "tools[0].type");
    EXPECT_NE(error.message.find(type), std::string::npos) << error.message;
  }
  EXPECT_EQ(refused("7").param, "tools[0]");
  EXPECT_EQ(refused(R"({"input_schema":{}})").param, "tools[0].name");
  EXPECT_EQ(refused(R"({"name":"","input_schema":{}})").param, "tools[0].name");
  EXPECT_EQ(refused(R"({"name":"a b","input_schema":{}})").param, "tools[0].name");
  EXPECT_EQ(refused(R"({"name":")" + std::string(129, 'a') + R"(","input_schema":{}})").param,
            "tools[0].name");
  EXPECT_EQ(refused(R"({"name":"a"})").param, "tools[0].input_schema");
  EXPECT_EQ(refused(R"({"name":"a","input_schema":[]})").param, "tools[0].input_schema");
  EXPECT_EQ(refused(R"({"name":"a","input_schema":{},"description":7})").param, "tools[0].description");
  EXPECT_EQ(refused(R"({"name":"a","input_schema":{}},{"name":"a","input_schema":{}})").param,
            "tools[1].name");
  EXPECT_EQ(error_of(with(R"(,"tools":{})")).param, "tools");
}

TEST(AnthropicRequest, ThinkingAndEffortAreToldToTheTemplate) {
  const auto told = [](const std::string& members) {
    return text_of(prompt_of(taken(with(members))).template_args);
  };
  EXPECT_EQ(told(R"(,"thinking":{"type":"enabled","budget_tokens":2000})"),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(told(R"(,"thinking":{"type":"adaptive","display":"summarized"})"),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(told(R"(,"thinking":{"type":"disabled"})"), R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(told(R"(,"output_config":{"effort":"medium"})"),
            R"({"reasoning_effort":"medium","enable_thinking":false,"thinking":false})");
  EXPECT_EQ(told(R"(,"output_config":{"effort":"max"})"),
            R"({"reasoning_effort":"high","enable_thinking":false,"thinking":false})");
  EXPECT_EQ(error_of(with(R"(,"thinking":{"type":"between_tools"})")).param, "thinking.type");
  EXPECT_EQ(error_of(with(R"(,"thinking":true)")).param, "thinking");
  EXPECT_EQ(error_of(with(R"(,"output_config":{"effort":"much"})")).param, "output_config.effort");
}

TEST(AnthropicRequest, AFormatConstrainsTheAnswer) {
  const std::string format = R"({"type":"json_schema","schema":{"type":"integer"}})";
  for (const auto& [members, place] :
       {std::pair{R"(,"output_config":{"format":)" + format + "}", "output_config.format.schema"},
        std::pair{R"(,"output_format":)" + format, "output_format.schema"}}) {
    const Generate request = taken(with(members));
    ASSERT_TRUE(request.base.constraint);
    EXPECT_EQ(request.base.constraint->kind, Constraint::Kind::json_schema);
    EXPECT_EQ(text_of(request.base.constraint->source), R"({"type":"integer"})");
    EXPECT_EQ(request.constraint_field, place);
    EXPECT_TRUE(request.wants_json);
  }
  EXPECT_EQ(
      error_of(with(R"(,"output_format":)" + format + R"(,"output_config":{"format":)" + format + "}")).param,
      "output_format");
  EXPECT_EQ(error_of(with(R"(,"output_format":{"type":"text"})")).param, "output_format");
  EXPECT_EQ(error_of(with(R"(,"output_format":{"type":"json_schema"})")).param, "output_format.schema");
  EXPECT_EQ(error_of(with(R"(,"output_format":{"type":"json_schema","schema":7})")).param,
            "output_format.schema");
}

TEST(AnthropicRequest, AFormatStandsBesideTools) {
  Generate both =
      taken(with(R"(,"output_format":{"type":"json_schema","schema":{"type":"integer"}},"tools":[)" +
                 std::string(kWeather) + "]"));
  ASSERT_TRUE(suit_to_model(both, nullptr));
  ASSERT_TRUE(both.base.constraint && both.parser);
  EXPECT_EQ(both.base.constraint->kind, Constraint::Kind::structural_tag);
  ASSERT_EQ(both.schema_places.size(), 2U);
  EXPECT_EQ(both.schema_places[0].field, "output_format.schema");
  EXPECT_EQ(both.schema_places[1].field, "tools[0].input_schema");
}

TEST(AnthropicRequest, ErrorsNameTheField) {
  const Error range = error_of(with(R"(,"temperature":1.5)"));
  EXPECT_EQ(range.message, "'temperature' is 1.5, but must be at least 0 and at most 1.");
  EXPECT_EQ(error_of(with(R"(,"stop_sequences":7)")).param, "stop_sequences");
  EXPECT_EQ(error_of(with(R"(,"stop_sequences":"a")")).param, "stop_sequences");
  const Generate misspelt = taken(with(R"(,"temprature":1)"));
  ASSERT_TRUE(misspelt.unknown.refusal());
  EXPECT_NE(misspelt.unknown.refusal()->message.find("did you mean \"temperature\""), std::string::npos);
  const Generate nested =
      taken(of_messages(R"({"role":"user","content":[{"type":"text","text":"a","txt":1}]})"));
  EXPECT_EQ(nested.unknown.places(), (std::vector<std::string>{"messages[0].content[0].txt"}));
}

TEST(AnthropicRequest, CountsThePromptThatAnAnswerHas) {
  const std::string rest = R"("system":")" + std::string(kBilling) + R"(\nBe brief.","tools":[)" + kWeather +
                           R"(],"thinking":{"type":"enabled","budget_tokens":1024})";
  const Generate asked = taken(with("," + rest));
  const auto body = read_packed(R"({"model":"m","messages":[{"role":"user","content":"Hi"}],)" + rest + "}");
  ASSERT_TRUE(body);
  const auto counted = parse_count_tokens(body->view());
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_EQ(counted->model, "m");
  EXPECT_EQ(counted->base.wanted, Wanted::prompt_tokens);
  const auto& prompt = std::get<ChatPrompt>(counted->prompts.front());
  EXPECT_EQ(prompt.messages.bytes(), prompt_of(asked).messages.bytes());
  EXPECT_EQ(prompt.tools.bytes(), prompt_of(asked).tools.bytes());
  EXPECT_EQ(prompt.template_args.bytes(), prompt_of(asked).template_args.bytes());
  EXPECT_EQ(counted->note, asked.note);
  const auto both = read_packed(R"({"messages":[{"role":"user","content":"Hi"}],)" + rest +
                                R"(,"output_format":{"type":"json_schema","schema":{"type":"object"}}})");
  const auto formatted = parse_count_tokens(both->view());
  ASSERT_TRUE(formatted) << formatted.error().message;
  EXPECT_EQ(std::get<ChatPrompt>(formatted->prompts.front()).tools.bytes(), prompt.tools.bytes());
  const auto odd = read_packed(R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":1})");
  const auto with_limit = parse_count_tokens(odd->view());
  ASSERT_TRUE(with_limit && with_limit->unknown.refusal());
  EXPECT_NE(with_limit->unknown.refusal()->message.find("/v1/messages"), std::string::npos);
}

// ---- the table of fields ----------------------------------------------------------------------------------

// A request with one further member, at the place that the group is for.
std::string body_with(const FieldGroup& group, const std::string& name, const std::string& value) {
  const std::string member = ",\"" + name + "\":" + value;
  switch (group.of) {
    case FieldOf::body:
      return with(member);
    case FieldOf::message:
      return of_messages(R"({"role":"user","content":"a")" + member + "}");
    case FieldOf::part:
      return of_messages(R"({"role":"user","content":[{"type":"text","text":"a")" + member + "}]}");
    case FieldOf::tool:
      return with(R"(,"tools":[{"name":"f","input_schema":{})" + member + "}]");
    case FieldOf::thinking:
      return with(R"(,"thinking":{"type":"enabled")" + member + "}");
    case FieldOf::output_config:
      return with(R"(,"output_config":{"effort":"low")" + member + "}");
    default:
      std::abort();
  }
}

TEST(AnthropicFieldTable, AcceptedFieldsTakeAnyValueAndRefusedOnesNone) {
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : names_of(group)) {
      if (group.use == FieldUse::served) continue;
      const auto odd = read(body_with(group, name, kOdd));
      if (group.use == FieldUse::accepted) {
        ASSERT_TRUE(odd) << name << ": " << odd.error().message;
        EXPECT_FALSE(odd->unknown.refusal()) << name;
        const Generate without = taken(body_with(group, name, "null"));
        EXPECT_EQ(text_of(prompt_of(*odd).messages), text_of(prompt_of(without).messages)) << name;
        EXPECT_EQ(settings_of(*odd), settings_of(without)) << name;
        continue;
      }
      ASSERT_FALSE(odd) << name;
      EXPECT_TRUE(odd.error().param.ends_with(name)) << odd.error().param;
      EXPECT_NE(odd.error().message.find(note_of(group)), std::string::npos) << odd.error().message;
      for (const json& nothing : json::parse(group.asks_for_nothing)) {
        const auto empty = read(body_with(group, name, nothing.dump()));
        EXPECT_TRUE(empty) << name << " " << nothing << ": " << (empty ? "" : empty.error().message);
      }
    }
}

// A row that the parser did not read would let every value pass.
TEST(AnthropicFieldTable, TheParserReadsEachServedField) {
  std::size_t fields = 0;
  for (const std::string_view name : field_table().names(FieldOf::body, kMessages)) {
    if (field_table().find(FieldOf::body, kMessages, name)->use != FieldUse::served) continue;
    json body = json::parse(with(""));
    body[std::string(name)] = json::parse(kOdd);
    EXPECT_NE(error_of(body.dump()).param.find(name), std::string::npos) << name;
    ++fields;
  }
  EXPECT_GT(fields, field_table().parameters().size());
}

TEST(AnthropicFieldTable, HasEachNameOncePerEndpoint) {
  std::set<std::tuple<FieldOf, Endpoints, std::string>> seen;
  const auto add = [&](FieldOf of, Endpoints endpoints, const std::string& name) {
    for (const Endpoints one : {kMessages, kCountTokens}) {
      if ((endpoints & one) == 0) continue;
      EXPECT_TRUE(seen.emplace(of, one, name).second) << name;
    }
  };
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : names_of(group)) add(group.of, group.endpoints, name);
  for (const Parameter& p : field_table().parameters()) add(p.of, p.endpoints, std::string(p.name));
}

// ---- answers ----------------------------------------------------------------------------------------------

json whole(Choice choice, const Totals& totals = {}) {
  Writer writer;
  writer.begin({"req-1", 0, "m", 1});
  std::string body;
  while (writer.whole({&choice, 1}, totals, body)) continue;
  return json::parse(body);
}

TEST(AnthropicWriter, WholeMessagesHaveThinkingTextAndCalls) {
  Choice choice;
  choice.reasoning = "hm";
  choice.text = "Look.";
  choice.calls = {{"t1", "weather", R"({"city":"Bern"})", true}, {"t2", "clock", "{}", true}};
  choice.reason = FinishReason::tool_calls;
  const json message = whole(choice, {{10, 5, 4}, 1000, 2});
  EXPECT_EQ(message["id"], "msg_1");
  EXPECT_EQ(message["content"], json::parse(R"([{"type":"thinking","thinking":"hm","signature":""},
                {"type":"text","text":"Look."},
                {"type":"tool_use","id":"t1","name":"weather","caller":{"type":"direct"},"input":{"city":"Bern"}},
                {"type":"tool_use","id":"t2","name":"clock","caller":{"type":"direct"},"input":{}}])"));
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_EQ(message["usage"],
            json::parse(R"({"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,
                "output_tokens":5,"output_tokens_details":{"thinking_tokens":2},"server_tool_use":null,"fallback_credit":null,"iterations":null,
                "cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null})"));
  for (const char* member :
       {"container", "context_management", "diagnostics", "stop_details", "stop_sequence"})
    EXPECT_TRUE(message.contains(member) && message[member].is_null()) << member;
  EXPECT_EQ(whole({})["content"], json::array()) << "no text is no block";
}

TEST(AnthropicWriter, ACallThatBrokeOffKeepsItsText) {
  Choice choice;
  choice.calls = {{"t1", "weather", R"({"city":"Be)", false}, {"t2", "clock", "", false}};
  choice.reason = FinishReason::length;
  const json message = whole(choice);
  EXPECT_EQ(message["content"][0]["input"], (json{{"INVALID_JSON", R"({"city":"Be)"}}));
  EXPECT_EQ(message["content"][1]["input"], json::object());
  EXPECT_EQ(message["stop_reason"], "max_tokens");
}

TEST(AnthropicWriter, StopReasons) {
  const auto ended = [](FinishReason reason, const char* stop_text) {
    Choice choice;
    choice.reason = reason;
    choice.stop_text = stop_text;
    const json message = whole(choice);
    return message["stop_reason"].dump() + message["stop_sequence"].dump();
  };
  EXPECT_EQ(ended(FinishReason::stop, ""), R"("end_turn"null)");
  EXPECT_EQ(ended(FinishReason::stop, "END"), R"("stop_sequence""END")");
  EXPECT_EQ(ended(FinishReason::length, ""), R"("max_tokens"null)");
  EXPECT_EQ(ended(FinishReason::tool_calls, ""), R"("tool_use"null)");
}

// A long text of escapes and characters of several bytes comes in pieces, and is whole.
TEST(AnthropicWriter, WholeAnswersOfManyPieces) {
  std::string text;
  while (text.size() < 3 * http::BodySource::kPieceBytes) text += "a\"\\\nZ\xC3\xBCrich \xF0\x9F\xA6\x8B";
  Choice choice;
  choice.reasoning = text + "r";
  choice.text = text;
  choice.calls = {{"t", "f", json{{"a", text}}.dump(), true}, {"u", "g", text, false}};
  Writer writer;
  writer.begin({"req-1", 0, "m", 1});
  std::string body;
  std::size_t pieces = 1;
  for (std::size_t before = 0; writer.whole({&choice, 1}, {}, body); before = body.size()) {
    EXPECT_LT(body.size() - before, 3 * http::BodySource::kPieceBytes);
    ++pieces;
  }
  EXPECT_GT(pieces, 8U);
  const json content = json::parse(body)["content"];
  EXPECT_EQ(content[0]["thinking"], text + "r");
  EXPECT_EQ(content[1]["text"], text);
  EXPECT_EQ(content[2]["input"]["a"], text);
  EXPECT_EQ(content[3]["input"]["INVALID_JSON"], text);
}

std::string streamed(std::initializer_list<AnswerEvents> batches) {
  Writer writer;
  writer.begin({"req-1", 0, "m", 1});
  std::string out;
  Frames frames(StreamFraming::ndjson, out);
  for (const AnswerEvents& events : batches) writer.write(0, events, frames);
  return out;
}

TEST(AnthropicWriter, BlocksEndWhereOthersBegin) {
  const std::string out =
      streamed({{event::Used{{9, 0, 4}}},
                {event::Reasoning{"a"}, event::Reasoning{""}, event::Reasoning{"b"}},
                {event::Text{""}, event::Text{"c"}},
                {event::CallBegin{0, "t1", "f"}, event::CallArguments{0, "{"}},
                {event::CallArguments{0, "}"}, event::CallEnd{0}},
                {event::CallBegin{1, "t2", "g"}, event::CallEnd{1}, event::Text{"d"}},
                {event::Finish{FinishReason::tool_calls, {}, {}}, event::Ended{{{9, 7, 4}, 0, 2}}}});
  EXPECT_EQ(
      out,
      R"({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","container":null,"context_management":null,"diagnostics":null,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":0,"server_tool_use":null,"fallback_credit":null,"iterations":null,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null,"output_tokens_details":null}}}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"b"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"c"}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"f","caller":{"type":"direct"},"input":{}}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{"}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"}"}}
{"type":"content_block_stop","index":2}
{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t2","name":"g","caller":{"type":"direct"},"input":{}}}
{"type":"content_block_stop","index":3}
{"type":"content_block_start","index":4,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"d"}}
{"type":"content_block_stop","index":4}
{"type":"message_delta","context_management":null,"delta":{"container":null,"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7,"server_tool_use":null,"fallback_credit":null,"iterations":null,"output_tokens_details":{"thinking_tokens":2}}}
{"type":"message_stop"}
)");
}

TEST(AnthropicErrors, TypesFollowTheStatus) {
  const std::set<std::string_view> known{
      "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
      "request_too_large",     "rate_limit_error",     "api_error",        "overloaded_error",
      "timeout_error"};
  for (const ErrorRow& row : error_table())
    EXPECT_TRUE(known.contains(error_type(row.code))) << to_string(row.code);
  EXPECT_EQ(error_type(ErrorCode::invalid_value), "invalid_request_error");
  EXPECT_EQ(error_type(ErrorCode::invalid_api_key), "authentication_error");
  EXPECT_EQ(error_type(ErrorCode::host_not_allowed), "permission_error");
  EXPECT_EQ(error_type(ErrorCode::model_not_found), "not_found_error");
  EXPECT_EQ(error_type(ErrorCode::body_too_large), "request_too_large");
  EXPECT_EQ(error_type(ErrorCode::rate_limited), "rate_limit_error");
  EXPECT_EQ(error_type(ErrorCode::overloaded), "overloaded_error");
  EXPECT_EQ(error_type(ErrorCode::model_invalid), "api_error");
  EXPECT_EQ(error_type(ErrorCode::internal), "api_error");
  EXPECT_EQ(error_type(ErrorCode::upstream_timeout), "timeout_error");
}

TEST(AnthropicModels, OnePageOfThoseThatCanBeServed) {
  config::ModelEntry entry, other;
  entry.id = "a/b";
  other.id = "c";
  BackendInfo file;
  file.model_name = "A B";
  const std::array models{ListedModel{&entry, {}, {}, {}, 4096, &file},
                          ListedModel{&other, "absent", {}, {}, 0, nullptr},
                          ListedModel{&other, {}, {}, {}, 0, nullptr}};
  EXPECT_EQ(models_answer(models, 0).body,
            R"({"data":[{"type":"model","id":"a/b","display_name":"A B","created_at":"1970-01-01T00:00:00Z",)"
            R"("max_input_tokens":4096,"max_tokens":null},{"type":"model","id":"c","display_name":"c",)"
            R"("created_at":"1970-01-01T00:00:00Z","max_input_tokens":null,"max_tokens":null}],)"
            R"("has_more":false,"first_id":"a/b","last_id":"c"})"
            "\n");
  EXPECT_EQ(json::parse(models_answer({}, 0).body)["first_id"], nullptr);
  EXPECT_EQ(json::parse(model_answer(models[0], 0).body)["display_name"], "A B");
}

// ---- docs/anthropic.md ------------------------------------------------------------------------------------

TEST(docs, anthropic) {
  std::ifstream in(std::string(FLYBALL_SOURCE_DIR) + "/docs/anthropic.md", std::ios::binary);
  const std::string doc{std::istreambuf_iterator<char>(in), {}};
  std::string lines;
  for (const Parameter& p : field_table().parameters()) lines += row_of(p, std::string(to_string(p.of)));
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/anthropic.md lacks:\n" << lines;
  lines.clear();
  for (const FieldGroup& group : field_table().groups())
    lines += row_of(group, group.endpoints == kBoth ? "both" : "messages");
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/anthropic.md lacks:\n" << lines;
}

}  // namespace
}  // namespace flyball::api::anthropic
