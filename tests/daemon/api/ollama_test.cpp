// Bodies of Ollama's clients to typed requests, and the document that lists their fields.
#include <array>
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
#include "daemon/api/ollama/field_table.hpp"
#include "daemon/api/ollama/load.hpp"
#include "daemon/api/ollama/models.hpp"
#include "daemon/api/ollama/request.hpp"
#include "daemon/api/ollama/writer.hpp"
#include "daemon/api/suit_to_model.hpp"
#include "tests/daemon/api/table_rows.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::ollama {
namespace {

using nlohmann::json;
using test::text_of;

// A value that no field takes, nor asks for nothing.
constexpr const char* kOddValue = R"([{"no":1}])";

Result<Generate> read(Endpoints endpoint, const std::string& text) {
  const auto body = read_packed(text);
  if (!body) return std::unexpected(body.error());
  return endpoint == kChat ? parse_chat(body->view()) : parse_generate(body->view());
}

std::string chat_with(const std::string& members) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" + members + "}";
}
std::string text_with(const std::string& members) {
  return R"({"model":"m","prompt":"Hi")" + members + "}";
}

Generate chat_of(const std::string& members) {
  auto out = read(kChat, chat_with(members));
  EXPECT_TRUE(out) << (out ? "" : out.error().message);
  return out ? std::move(*out) : Generate{};
}

Error error_of(Endpoints endpoint, const std::string& body) {
  auto out = read(endpoint, body);
  EXPECT_FALSE(out) << body;
  return out ? Error{} : out.error();
}

std::string messages_of(const Generate& request) {
  return text_of(std::get<ChatPrompt>(request.prompts.front()).messages);
}

// The settings that an option may change, as a text.
std::string settings_of(const Generate& request) {
  const SamplingParams& s = request.base.sampling;
  const json out{s.temperature,
                 s.top_k,
                 s.top_p,
                 s.min_p,
                 s.typical_p,
                 s.seed,
                 request.seeded,
                 s.repetition_penalty,
                 s.frequency_penalty,
                 s.presence_penalty,
                 request.base.max_tokens,
                 request.base.stop};
  return out.dump();
}

// A request with one further member, at the place that the group is for.
Result<Generate> with(const FieldGroup& group, const std::string& name, const std::string& value) {
  const std::string member = ",\"" + name + "\":" + value;
  const Endpoints endpoint = (group.endpoints & kChat) != 0 ? kChat : kGenerate;
  const auto body = [&](const std::string& members) {
    return read(endpoint, endpoint == kChat ? chat_with(members) : text_with(members));
  };
  const auto chat = [&](const std::string& rest) {
    return read(kChat, R"({"messages":[{"role":"assistant")" + rest + "}]}");
  };
  switch (group.of) {
    case FieldOf::body:
      return body(member);
    case FieldOf::options:
      return body(R"(,"options":{"seed":1)" + member + "}");
    case FieldOf::message:
      return chat(R"(,"content":"a")" + member);
    case FieldOf::call:
      return chat(R"(,"content":"a","tool_calls":[{"function":{"name":"f"})" + member + "}]");
    case FieldOf::tool_function:
      return body(R"(,"tools":[{"type":"function","function":{"name":"f")" + member + "}}]");
    case FieldOf::called_function:
      return chat(R"(,"content":"a","tool_calls":[{"function":{"name":"f")" + member + "}}]");
    default:
      std::abort();
  }
}

TEST(OllamaRequest, SettingsAndDefaults) {
  const Generate plain = chat_of("");
  EXPECT_EQ(plain.model, "m");
  EXPECT_EQ(plain.stream, StreamFraming::ndjson);
  EXPECT_EQ(plain.base.max_tokens, 0U);
  EXPECT_FLOAT_EQ(plain.base.sampling.temperature, kTemperature);
  EXPECT_FLOAT_EQ(plain.base.sampling.top_p, kTopP);
  EXPECT_EQ(plain.base.sampling.top_k, kTopK);
  EXPECT_FALSE(plain.seeded);
  EXPECT_EQ(messages_of(plain), R"([{"role":"user","content":"Hi"}])");

  const Generate all = chat_of(
      R"(,"stream":false,"keep_alive":"5m","options":{"temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,
          "typical_p":0.9,"repeat_penalty":1.1,"frequency_penalty":0.5,"presence_penalty":-1,
          "num_predict":7,"seed":42,"stop":["a","b"],"num_ctx":99,"num_gpu":1})");
  const SamplingParams& s = all.base.sampling;
  EXPECT_FALSE(all.stream);
  EXPECT_EQ(s.temperature, 0.0F);
  EXPECT_FLOAT_EQ(s.top_p, 0.5F);
  EXPECT_EQ(s.top_k, 3);
  EXPECT_FLOAT_EQ(s.min_p, 0.1F);
  EXPECT_FLOAT_EQ(s.typical_p, 0.9F);
  EXPECT_FLOAT_EQ(s.repetition_penalty, 1.1F);
  EXPECT_FLOAT_EQ(s.frequency_penalty, 0.5F);
  EXPECT_FLOAT_EQ(s.presence_penalty, -1.0F);
  EXPECT_EQ(all.base.max_tokens, 7U);
  EXPECT_EQ(s.seed, 42U);
  EXPECT_TRUE(all.seeded);
  EXPECT_EQ(all.base.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(all.unknown.refusal());
  EXPECT_EQ(chat_of(R"(,"options":{"num_predict":-1})").base.max_tokens, 0U);
}

TEST(OllamaRequest, SettingsInTheBodyGiveWayToOptions) {
  const Generate body =
      chat_of(R"(,"temperature":0.5,"top_p":0.25,"max_output_tokens":7,"tool_choice":"auto")");
  EXPECT_FLOAT_EQ(body.base.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(body.base.sampling.top_p, 0.25F);
  EXPECT_EQ(body.base.max_tokens, 7U);
  EXPECT_FALSE(body.unknown.refusal());
  const Generate both =
      chat_of(R"(,"temperature":0.5,"max_output_tokens":7,"options":{"temperature":1,"num_predict":9})");
  EXPECT_FLOAT_EQ(both.base.sampling.temperature, 1.0F);
  EXPECT_EQ(both.base.max_tokens, 9U);
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"temperature":3)")).param, "temperature");
}

TEST(OllamaRequest, Formats) {
  EXPECT_FALSE(chat_of(R"(,"format":"")").base.constraint);
  const Generate any = chat_of(R"(,"format":"json")");
  ASSERT_TRUE(any.base.constraint);
  EXPECT_EQ(any.base.constraint->kind, Constraint::Kind::json_object);
  EXPECT_EQ(any.constraint_field, "format");
  EXPECT_TRUE(any.wants_json);
  const Generate schema = chat_of(R"(,"format":{"type":"integer"})");
  ASSERT_TRUE(schema.base.constraint);
  EXPECT_EQ(schema.base.constraint->kind, Constraint::Kind::json_schema);
  EXPECT_EQ(text_of(schema.base.constraint->source), R"({"type":"integer"})");
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"format":"yaml")")).param, "format");
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_TRUE(chat_of(tools).has_tools);
  ASSERT_TRUE(chat_of(tools).tools);
  EXPECT_EQ(chat_of(tools).tools->choice, ToolSet::Choice::automatic);
  EXPECT_EQ(text_of(chat_of(tools).tools->tools), R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_FALSE(chat_of(R"(,"tools":[])").tools);
  Generate both = chat_of(tools + R"(,"format":"json")");
  ASSERT_TRUE(suit_to_model(both, nullptr));
  ASSERT_TRUE(both.base.constraint && both.parser);
  EXPECT_EQ(both.base.constraint->kind, Constraint::Kind::structural_tag);
  EXPECT_EQ(both.schema_places.at(0).field, "format");
}

TEST(OllamaRequest, Texts) {
  const auto asked = read(kGenerate, text_with(R"(,"system":"Be brief.")"));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->kind, Generate::Kind::chat);
  EXPECT_EQ(messages_of(*asked),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  const auto raw = read(kGenerate, text_with(R"(,"raw":true)"));
  ASSERT_TRUE(raw);
  EXPECT_EQ(raw->kind, Generate::Kind::completion);
  EXPECT_EQ(std::get<TextPrompt>(raw->prompts.front()).text, "Hi");
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"raw":true,"system":"a")")).param, "system");
  EXPECT_EQ(error_of(kGenerate, R"({"prompt":7})").param, "prompt");
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"raw":"yes")")).param, "raw");
  EXPECT_EQ(error_of(kChat, R"({"messages":{}})").param, "messages");
  EXPECT_EQ(error_of(kChat, "[]").code, ErrorCode::invalid_value);
}

TEST(OllamaRequest, ASuffixMakesAPromptWithAGap) {
  const auto out = read(kGenerate, text_with(R"(,"suffix":"there","think":false)"));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->kind, Generate::Kind::completion);
  const auto& prompt = std::get<InfillPrompt>(out->prompts.front());
  EXPECT_EQ(prompt.before, "Hi");
  EXPECT_EQ(*prompt.after, "there");
  EXPECT_EQ(out->prompt_bytes, 7U);
  const auto at_the_start = read(kGenerate, R"({"model":"m","suffix":"there"})");
  ASSERT_TRUE(at_the_start) << at_the_start.error().message;
  EXPECT_EQ(std::get<InfillPrompt>(at_the_start->prompts.front()).before, "");
  EXPECT_TRUE(
      std::holds_alternative<ChatPrompt>(read(kGenerate, text_with(R"(,"suffix":"")"))->prompts.front()));
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"suffix":"a","raw":true)")).param, "suffix");
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"suffix":"a","system":"b")")).param, "system");
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"suffix":"a","think":true)")).param, "think");
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"suffix":7)")).param, "suffix");
}

TEST(OllamaRequest, ThinkIsToldToTheTemplate) {
  const auto told = [](const Generate& request) {
    return text_of(std::get<ChatPrompt>(request.prompts.front()).template_args);
  };
  EXPECT_EQ(told(chat_of("")), "");
  EXPECT_EQ(told(chat_of(R"(,"think":false)")), R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(told(chat_of(R"(,"think":true)")), R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(told(chat_of(R"(,"think":"low")")),
            R"({"reasoning_effort":"low","enable_thinking":true,"thinking":true})");
  EXPECT_EQ(told(*read(kGenerate, text_with(R"(,"think":true)"))),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"think":1)")).param, "think");
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"think":"hard")")).param, "think");
  EXPECT_TRUE(read(kGenerate, text_with(R"(,"raw":true,"think":false)")));
  EXPECT_EQ(error_of(kGenerate, text_with(R"(,"raw":true,"think":true)")).param, "think");
}

TEST(OllamaRequest, CallsOfEarlierAnswersKeepTheirArguments) {
  const auto out = read(kChat, R"({"messages":[{"role":"user","content":"a"},
      {"role":"assistant","content":"","tool_calls":[{"function":{"index":0,"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","tool_name":"f","content":"2"}]})");
  ASSERT_TRUE(out) << out.error().message;
  const json messages = json::parse(messages_of(*out));
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"], (json{{"name", "f"}, {"arguments", {{"x", 1}}}}));
  EXPECT_EQ(messages[2]["tool_name"], "f");
  EXPECT_EQ(messages[2]["name"], "f");
}

TEST(OllamaRequest, ErrorsNameTheOption) {
  const Error range = error_of(kChat, chat_with(R"(,"options":{"temperature":3})"));
  EXPECT_EQ(range.code, ErrorCode::invalid_value);
  EXPECT_EQ(range.param, "options.temperature");
  EXPECT_EQ(range.message, "'options.temperature' is 3, but must be at least 0 and at most 2.");
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"options":{"stop":1})")).param, "options.stop");
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"options":{"seed":"a"})")).param, "options.seed");
  EXPECT_EQ(error_of(kChat, chat_with(R"(,"options":[])")).param, "options");
  const Generate misspelt = chat_of(R"(,"options":{"temprature":1})");
  ASSERT_TRUE(misspelt.unknown.refusal());
  EXPECT_EQ(misspelt.unknown.refusal()->param, "options.temprature");
  EXPECT_NE(misspelt.unknown.refusal()->message.find("did you mean \"temperature\""), std::string::npos);
  const auto elsewhere = read(kGenerate, text_with(R"(,"messages":[])"));
  ASSERT_TRUE(elsewhere && elsewhere->unknown.refusal());
  EXPECT_NE(elsewhere->unknown.refusal()->message.find("/api/chat"), std::string::npos);
}

TEST(OllamaFieldTable, AcceptedFieldsTakeAnyValueAndRefusedOnesNone) {
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : names_of(group)) {
      if (group.use == FieldUse::served || (group.endpoints & kBoth) == 0) continue;
      const auto odd = with(group, name, kOddValue);
      if (group.use == FieldUse::accepted) {
        ASSERT_TRUE(odd) << name << ": " << odd.error().message;
        EXPECT_FALSE(odd->unknown.refusal()) << name;
        const Generate without = std::move(*with(group, name, "null"));
        EXPECT_EQ(messages_of(*odd), messages_of(without)) << name;
        EXPECT_EQ(settings_of(*odd), settings_of(without)) << name;
        continue;
      }
      ASSERT_FALSE(odd) << name;
      EXPECT_TRUE(odd.error().param.ends_with(name)) << odd.error().param;
      EXPECT_NE(odd.error().message.find(note_of(group)), std::string::npos) << odd.error().message;
      for (const json& nothing : json::parse(group.asks_for_nothing)) {
        const auto empty = with(group, name, nothing.dump());
        EXPECT_TRUE(empty) << name << " " << nothing << ": " << (empty ? "" : empty.error().message);
      }
    }
}

// A row that the parser did not read would let every value pass.
TEST(OllamaFieldTable, TheParserReadsEachServedField) {
  std::size_t fields = 0;
  for (const Endpoints endpoint : {kChat, kGenerate})
    for (const FieldOf of : {FieldOf::body, FieldOf::options})
      for (const std::string_view name : field_table().names(of, endpoint)) {
        if (field_table().find(of, endpoint, name)->use != FieldUse::served) continue;
        json body{{"model", "m"}};
        if (endpoint == kChat) body["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
        if (endpoint == kGenerate) body["prompt"] = "Hi";
        (of == FieldOf::body ? body : body["options"])[std::string(name)] = json::parse(kOddValue);
        const Error error = error_of(endpoint, body.dump());
        EXPECT_NE(error.param.find(name), std::string::npos) << name << ": " << error.param;
        ++fields;
      }
  EXPECT_GT(fields, 2 * field_table().parameters().size());
}

TEST(OllamaFieldTable, HasEachNameOncePerEndpoint) {
  std::set<std::tuple<FieldOf, Endpoints, std::string>> seen;
  const auto add = [&](FieldOf of, Endpoints endpoints, const std::string& name) {
    for (const Endpoints one : {kChat, kGenerate, kShow}) {
      if ((endpoints & one) == 0) continue;
      EXPECT_TRUE(seen.emplace(of, one, name).second) << name;
    }
  };
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : names_of(group)) add(group.of, group.endpoints, name);
  for (const Parameter& p : field_table().parameters()) add(p.of, p.endpoints, std::string(p.name));
}

TEST(OllamaRequest, RepeatLastN) {
  const auto with_n = [](const char* n, const char* more = "") {
    return chat_with(R"(,"options":{"repeat_last_n":)" + std::string(n) + more + "}");
  };
  EXPECT_TRUE(read(kChat, with_n("64"))) << "there is no penalty";
  EXPECT_TRUE(read(kChat, with_n("-1", R"(,"repeat_penalty":1.2)")));
  EXPECT_EQ(read(kChat, with_n("0", R"(,"repeat_penalty":1.2)"))->base.sampling.repetition_penalty, 1.0F);
  EXPECT_FLOAT_EQ(read(kChat, with_n("64", R"(,"repeat_penalty":1.2)"))->base.sampling.repetition_penalty,
                  1.2F)
      << "the default, as if it were not given";
  EXPECT_EQ(error_of(kChat, with_n("63", R"(,"repeat_penalty":1.2)")).param, "options.repeat_last_n");
}

TEST(OllamaRequest, Show) {
  const auto show = [](const char* text) { return parse_show(read_packed(text)->view()); };
  EXPECT_EQ(show(R"({"model":"a"})")->name, "a");
  EXPECT_EQ(show(R"({"name":"a","verbose":true})")->name, "a");
  EXPECT_EQ(show(R"({"name":"a","model":"b"})").error().param, "name");
  EXPECT_EQ(show("{}").error().code, ErrorCode::missing_field);
  EXPECT_EQ(show(R"({"model":7})").error().param, "model");
  EXPECT_EQ(show(R"({"model":"a","system":"b"})").error().param, "system");
  EXPECT_TRUE(show(R"({"model":"a","modle":"b"})")->unknown.refusal());
}

// A long text of escapes and characters of several bytes comes in pieces, and is whole.
TEST(OllamaWriter, WholeAnswersOfManyPieces) {
  std::string text;
  while (text.size() < 3 * http::BodySource::kPieceBytes) text += "a\"\\\nZÃ¼rich ð";
  Choice choice;
  choice.text = text;
  choice.reason = FinishReason::length;
  choice.timings = {.queue_us = 1, .prefill_us = 20, .decode_us = 300};
  Writer writer(Writer::Shape::chat);
  writer.begin({"req-1", 0, "m", 1});
  std::string body;
  std::size_t pieces = 1;
  for (std::size_t before = 0; writer.whole({&choice, 1}, {{7, 5, 2}, 1000}, body); before = body.size()) {
    EXPECT_LT(body.size() - before, 3 * http::BodySource::kPieceBytes);
    ++pieces;
  }
  EXPECT_GT(pieces, 2U);
  const json document = json::parse(body);
  EXPECT_EQ(document["message"]["content"], text);
  EXPECT_EQ(document["done_reason"], "length");
  EXPECT_EQ(document["total_duration"], 1'000'000);
  EXPECT_EQ(document["load_duration"], 680'000);
  EXPECT_EQ(document["prompt_eval_duration"], 20'000);
  EXPECT_EQ(document["eval_duration"], 300'000);
  EXPECT_EQ(document["prompt_eval_count"], 7);
  EXPECT_EQ(document["eval_count"], 5);
}

// The example of Ollama's docs/api.md, "Generate request (With options)", but for repeat_last_n.
TEST(OllamaRequest, TheFullOptionsOfOllamasExample) {
  const auto with_options = [](const std::string& more) {
    return read(kGenerate, text_with(R"(,"stream":false,"options":{"num_keep":5,"seed":42,"num_predict":100,
      "top_k":20,"top_p":0.9,"min_p":0.0,"typical_p":0.7,"temperature":0.8,"repeat_penalty":1.2,
      "presence_penalty":1.5,"frequency_penalty":1.0,"penalize_newline":true,"stop":["\n","user:"],
      "numa":false,"num_ctx":1024,"num_batch":2,"num_gpu":1,"main_gpu":0,"use_mmap":true,"num_thread":8)" +
                                     more + "}"));
  };
  const auto out = with_options(R"(,"repeat_last_n":64)");
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_FALSE(out->unknown.refusal()) << out->unknown.refusal()->message;
  EXPECT_FLOAT_EQ(out->base.sampling.typical_p, 0.7F);
  EXPECT_FLOAT_EQ(out->base.sampling.presence_penalty, 1.5F);
  const auto narrower = with_options(R"(,"repeat_last_n":33)");
  ASSERT_FALSE(narrower);
  EXPECT_EQ(
      narrower.error().message,
      "'options.repeat_last_n' is served as -1, 0 or 64 only: 'repeat_penalty' sees the whole sequence.");
}

TEST(OllamaRequest, PenalizeNewline) {
  const auto with_false = [](const char* more) {
    return read(kChat, chat_with(R"(,"options":{"penalize_newline":false)" + std::string(more) + "}"));
  };
  EXPECT_TRUE(with_false("")) << "there is no penalty";
  for (const char* penalty :
       {R"(,"repeat_penalty":1.1)", R"(,"frequency_penalty":1)", R"(,"presence_penalty":1)"}) {
    const auto out = with_false(penalty);
    ASSERT_FALSE(out) << penalty;
    EXPECT_EQ(out.error().code, ErrorCode::unsupported_value);
    EXPECT_EQ(out.error().param, "options.penalize_newline");
  }
}

TEST(OllamaRequest, WithoutAPromptAsksForALoad) {
  for (const auto& [endpoint, body] :
       {std::pair(kGenerate, R"({"model":"m"})"), std::pair(kGenerate, R"({"model":"m","prompt":""})"),
        std::pair(kGenerate, R"({"model":"m","prompt":"","raw":true,"format":"json","stream":true})"),
        std::pair(kChat, R"({"model":"m"})"), std::pair(kChat, R"({"model":"m","messages":[]})")}) {
    const auto out = read(endpoint, body);
    ASSERT_TRUE(out) << body << ": " << out.error().message;
    EXPECT_EQ(out->base.wanted, Wanted::prompt_tokens) << body;
    EXPECT_FALSE(out->base.constraint) << body;
    EXPECT_FALSE(out->stream) << "one document, as Ollama answers";
    ASSERT_EQ(out->prompts.size(), 1U);
    EXPECT_EQ(std::get<TextPrompt>(out->prompts[0]).text, "");
    EXPECT_FALSE(std::get<TextPrompt>(out->prompts[0]).add_special);
  }
  EXPECT_EQ(error_of(kChat, R"({"model":"m","mesages":[]})").code, ErrorCode::missing_field);
  EXPECT_EQ(error_of(kChat, R"({"model":"m","messages":[],"tools":7})").param, "tools");
  const auto misspelt = read(kGenerate, R"({"model":"m","promt":"Hi"})");
  ASSERT_TRUE(misspelt && misspelt->unknown.refusal()) << "it must not load in silence";
}

TEST(OllamaRequest, KeepAliveOfNothing) {
  const auto zero = [](const char* keep_alive) {
    return is_zero(read_packed(R"({"k":)" + std::string(keep_alive) + "}")->view().member("k"));
  };
  for (const char* none : {"0", "0.0", "-0", R"("0")", R"("0s")", R"("0m0s")"})
    EXPECT_TRUE(zero(none)) << none;
  for (const char* some : {"null", "1", "-1", "0.5", R"("")", R"("none0")", R"("0 forever")", R"("0x")",
                           R"("5m")", R"("10s")", R"("0.5s")", R"("s")", "true", "[]"})
    EXPECT_FALSE(zero(some)) << some;
}

TEST(OllamaModels, NamesSizesAndDetails) {
  config::ModelEntry entry;
  entry.id = "a/b";
  BackendInfo file;
  file.architecture = "qwen2";
  file.parameters = 1'540'000'000;
  file.quantization = "Q4_K";
  file.weight_bytes = 1000;
  ListedModel model{&entry, {}, {}, {}, 4096, &file};
  const json tags = json::parse(tags_answer({&model, 1}, 0).body);
  ASSERT_EQ(tags["models"].size(), 1U);
  EXPECT_EQ(tags["models"][0]["name"], "a/b:latest");
  EXPECT_EQ(tags["models"][0]["modified_at"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(tags["models"][0]["size"], 1000);
  EXPECT_EQ(tags["models"][0]["details"]["parameter_size"], "1.5B");
  EXPECT_EQ(tags["models"][0]["details"]["quantization_level"], "Q4_K");
  EXPECT_EQ(json::parse(ps_answer({&model, 1}, 0).body)["models"].size(), 0U) << "it is not loaded";
  model.loaded = true;
  json loaded = json::parse(ps_answer({&model, 1}, 0).body)["models"][0];
  EXPECT_EQ(loaded["digest"], "") << "two engines have loaded different files";
  model.digest = "d";
  loaded = json::parse(ps_answer({&model, 1}, 0).body)["models"][0];
  EXPECT_EQ(loaded["digest"], "d");
  EXPECT_EQ(loaded["context_length"], 4096);
  EXPECT_EQ(loaded["size"], 1000) << "of the file: nothing is known of memory";
  EXPECT_EQ(loaded["size_vram"], 0);
  EXPECT_EQ(loaded["expires_at"], "2262-04-11T23:47:16Z") << "never";
  model.held_bytes = 3000;
  model.device_bytes = 2500;
  model.expires_at = 300;
  loaded = json::parse(ps_answer({&model, 1}, 0).body)["models"][0];
  EXPECT_EQ(loaded["size"], 3000);
  EXPECT_EQ(loaded["size_vram"], 2500);
  EXPECT_EQ(loaded["expires_at"], "1970-01-01T00:05:00Z");
  const json shown = json::parse(show_answer(model, 0).body);
  EXPECT_EQ(shown["model_info"]["qwen2.context_length"], 4096);
  EXPECT_EQ(shown["model_info"]["general.parameter_count"], 1'540'000'000);
  EXPECT_EQ(shown["template"], "{{ .System }}{{ .Tools }}{{ .Prompt }}");
  EXPECT_EQ(shown["capabilities"], json({"completion", "tools"}));
  model.traits.infills = true;
  const json infills = json::parse(show_answer(model, 0).body);
  EXPECT_NE(infills["template"].get<std::string>().find("{{ .Suffix }}"), std::string::npos);
  EXPECT_EQ(infills["capabilities"], json({"completion", "tools", "insert"}));
  model.traits.infills = std::nullopt;

  entry.id = "c:7b";
  model.file = nullptr;
  config::ModelEntry other;
  other.id = "d";
  other.aliases = {"e:latest"};
  config::ModelEntry clash;
  clash.id = "e";
  const auto listed_as = [](const config::ModelEntry& one, const char* unavailable) {
    return ListedModel{&one, unavailable, {}, {}, 0, nullptr};
  };
  const std::array several{listed_as(other, ""), listed_as(clash, ""), listed_as(entry, "absent")};
  const json listed = json::parse(tags_answer(several, 0).body)["models"];
  ASSERT_EQ(listed.size(), 2U) << "no engine can serve the third";
  EXPECT_EQ(listed[0]["name"], "d:latest");
  EXPECT_EQ(listed[1]["name"], "e") << "another model is called e:latest";
  const json unknown = json::parse(tags_answer({&model, 1}, 0).body);
  EXPECT_EQ(unknown["models"][0]["name"], "c:7b");
  EXPECT_EQ(unknown["models"][0]["details"]["family"], "");
  EXPECT_TRUE(json::parse(show_answer(model, 0).body)["model_info"].empty());
}

// ---- docs/ollama.md ---------------------------------------------------------------------------------------

const char* where(Endpoints endpoints) {
  return endpoints == kBoth       ? "both"
         : endpoints == kChat     ? "chat"
         : endpoints == kGenerate ? "generate"
                                  : "show";
}

TEST(docs, ollama) {
  std::ifstream in(std::string(FLYBALL_SOURCE_DIR) + "/docs/ollama.md", std::ios::binary);
  const std::string doc{std::istreambuf_iterator<char>(in), {}};
  std::string lines;
  for (const Parameter& p : field_table().parameters()) lines += row_of(p, std::string(to_string(p.of)));
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/ollama.md lacks:\n" << lines;
  lines.clear();
  for (const FieldGroup& group : field_table().groups()) lines += row_of(group, where(group.endpoints));
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/ollama.md lacks:\n" << lines;
}

}  // namespace
}  // namespace flyball::api::ollama
