// /tokenize and /detokenize: what engines are asked for, what clients get, and what it costs their app.
#include <gmock/gmock.h>

#include "daemon/api/prompt_answer.hpp"
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Tokenize : InferenceTest {
  config::AppLimits& alice() { return rig.settings->apps[0].limits; }
  Answer tokenize(std::string_view body) { return ask(body, "/tokenize"); }
  Answer detokenize(std::string_view body) { return ask(body, "/detokenize"); }
  const CompletionRequest& asked() { return rig.cpu().started.back(); }
  std::string metrics() {
    Wire wire(rig);
    wire.send(get("/metrics"));
    return wire.answer().body;
  }
};

TEST_F(Tokenize, a_text_gets_the_tokens_of_its_prompt) {
  rig.settings->config.models[0].context = 512;
  const auto answer = tokenize(R"({"model":"demo","prompt":"x y"})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            "{\"count\":7,\"max_model_len\":512,\"tokens\":[11,12,11,999,0,1,2],"
            "\"token_strs\":null}\n");
  EXPECT_EQ(answer.field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  EXPECT_EQ(asked().wanted, Wanted::prompt_tokens);
  EXPECT_EQ(std::get<TextPrompt>(asked().prompt).text, "x y");
}

struct SpecialCase {
  const char* name;
  const char* body;
  bool add_special;
};
void PrintTo(const SpecialCase& one, std::ostream* out) {
  *out << one.name;
}
class TokenizeSpecial : public Tokenize, public ::testing::WithParamInterface<SpecialCase> {};

TEST_P(TokenizeSpecial, tokens_are_added_as_the_client_says) {
  EXPECT_EQ(tokenize(GetParam().body).status, 200);
  EXPECT_EQ(std::get<TextPrompt>(asked().prompt).add_special, GetParam().add_special);
}

INSTANTIATE_TEST_SUITE_P(
    Table, TokenizeSpecial,
    ::testing::Values(SpecialCase{"vllm", R"({"prompt":"x"})", true},
                      SpecialCase{"vllm_without", R"({"prompt":"x","add_special_tokens":false})", false},
                      SpecialCase{"llama_cpp", R"({"content":"x","with_pieces":false})", false},
                      SpecialCase{"llama_cpp_with", R"({"content":"x","add_special":true})", true}),
    [](const auto& row) { return row.param.name; });

TEST_F(Tokenize, a_chat_is_asked_as_it_would_be_for_its_answer) {
  const std::string chat =
      R"({"model":"demo","messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"stream":true,)"
      R"("n":2,"response_format":{"type":"json_object"},"chat_template_kwargs":{"a":1},)"
      R"("add_generation_prompt":false})";
  EXPECT_EQ(json::parse(tokenize(chat).body)["count"], 7);
  const CompletionRequest counted = asked();
  EXPECT_FALSE(counted.constraint);
  ask(chat);
  const auto& of_count = std::get<ChatPrompt>(counted.prompt);
  const auto& of_chat = std::get<ChatPrompt>(asked().prompt);
  EXPECT_EQ(asked().wanted, Wanted::answer);
  EXPECT_EQ(of_count.messages.bytes(), of_chat.messages.bytes());
  EXPECT_EQ(of_count.template_args.bytes(), of_chat.template_args.bytes());
  EXPECT_FALSE(of_count.add_generation_prompt);
}

TEST_F(Tokenize, tokens_get_their_text_under_the_names_of_both_servers) {
  const auto answer = detokenize(R"({"model":"demo","tokens":[1,2,300]})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body),
            (json{{"prompt", rig.cpu().prompt_text}, {"content", rig.cpu().prompt_text}}));
  EXPECT_EQ(asked().wanted, Wanted::prompt_text);
  EXPECT_EQ(std::get<TokenPrompt>(asked().prompt).tokens, (std::vector<Token>{1, 2, 300}));
  EXPECT_EQ(detokenize(R"({"tokens":[]})").status, 200);
}

struct RefusedBody {
  const char* name;
  const char* path;
  const char* body;
  const char* code;
  const char* param;
};
void PrintTo(const RefusedBody& one, std::ostream* out) {
  *out << one.name;
}
class TokenizeRefuses : public Tokenize, public ::testing::WithParamInterface<RefusedBody> {};

TEST_P(TokenizeRefuses, with_the_field_and_the_reason) {
  const auto answer = ask(GetParam().body, GetParam().path);
  EXPECT_EQ(answer.status, 400);
  const json error = json::parse(answer.body)["error"];
  EXPECT_EQ(error["code"], GetParam().code) << error;
  EXPECT_EQ(error["param"], GetParam().param) << error;
  EXPECT_TRUE(rig.cpu().started.empty());
}

constexpr const char* kTokenizePath = "/tokenize";
constexpr const char* kDetokenizePath = "/detokenize";
INSTANTIATE_TEST_SUITE_P(
    Table, TokenizeRefuses,
    ::testing::Values(
        RefusedBody{"nothing", kTokenizePath, "{}", "missing_field", "prompt"},
        RefusedBody{"two_texts", kTokenizePath, R"({"prompt":"a","content":"b"})", "invalid_value",
                    "content"},
        RefusedBody{"a_text_beside_messages", kTokenizePath,
                    R"({"prompt":"a","messages":[{"role":"user","content":"b"}]})", "invalid_value",
                    "prompt"},
        RefusedBody{"several_texts", kTokenizePath, R"({"prompt":["a","b"]})", "invalid_value", "prompt"},
        RefusedBody{"pieces", kTokenizePath, R"({"content":"a","with_pieces":true})", "unsupported_value",
                    "with_pieces"},
        RefusedBody{"token_strs", kTokenizePath, R"({"prompt":"a","return_token_strs":true})",
                    "unsupported_value", "return_token_strs"},
        RefusedBody{"unparsed", kTokenizePath, R"({"content":"a","parse_special":false})",
                    "unsupported_value", "parse_special"},
        RefusedBody{"special_of_a_chat", kTokenizePath,
                    R"({"messages":[{"role":"user","content":"b"}],"add_special_tokens":true})",
                    "unsupported_value", "add_special_tokens"},
        RefusedBody{"unknown", kTokenizePath, R"({"prompt":"a","temperature":1})", "unknown_field",
                    "temperature"},
        RefusedBody{"no_flag", kTokenizePath, R"({"content":"a","add_special":1})", "invalid_value",
                    "add_special"},
        RefusedBody{"no_tokens", kDetokenizePath, R"({"model":"demo"})", "missing_field", "tokens"},
        RefusedBody{"text_for_tokens", kDetokenizePath, R"({"tokens":"1 2"})", "invalid_value", "tokens"},
        RefusedBody{"no_token", kDetokenizePath, R"({"tokens":[1,-1]})", "invalid_value", "tokens"},
        RefusedBody{"model", kDetokenizePath, R"({"model":1,"tokens":[1]})", "invalid_value", "model"}),
    [](const auto& row) { return row.param.name; });

// A request, and no token of it: the prompt is not computed.
TEST_F(Tokenize, costs_the_app_a_request_and_no_tokens) {
  alice().requests_per_minute = 3;
  alice().tokens_per_day = 11;
  const auto first = tokenize(R"({"prompt":"x"})");
  EXPECT_EQ(first.field("x-ratelimit-remaining-tokens"), "11");
  EXPECT_EQ(asked().total_tokens, 0U);
  EXPECT_EQ(ask(R"({"prompt":"x","max_tokens":5})", "/v1/completions").status, 200) << "all 11 are left";
  EXPECT_EQ(detokenize(R"({"tokens":[1]})").status, 200) << "none is left, and none is needed";
  EXPECT_EQ(tokenize(R"({"prompt":"x"})").status, 429);
}

TEST_F(Tokenize, is_no_answer_in_metrics_and_receipts) {
  const auto answer = tokenize(kHello);
  const json receipt = json::parse([&] {
    Wire wire(rig);
    wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
    return wire.answer().body;
  }());
  EXPECT_EQ(receipt["operation"], "prompt_tokens");
  EXPECT_EQ(receipt["state"], "done");
  EXPECT_EQ(receipt["usage"]["prompt_tokens"], 0);
  const std::string text = metrics();
  EXPECT_THAT(text, HasSubstr(R"(operation="tokenize")"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr(R"(operation="chat")"))) << "no token, no time to a first one";
}

// The model computes one answer at a time, and another app's is under way.
TEST_F(Tokenize, does_not_wait_for_the_turn_of_an_answer) {
  rig.settings->config.models[0].max_sequences = 1;
  rig.cpu().script = [](const CompletionRequest& request) {
    return Script{.manual = request.wanted == Wanted::answer};
  };
  Wire busy(rig);
  busy.send(post(kChatPath, kHelloStream));
  ASSERT_EQ(rig.cpu().started.size(), 1U);
  EXPECT_EQ(json::parse(tokenize(kHello).body)["count"], 7);
  EXPECT_EQ(rig.cpu().live(), 1U) << "the answer goes on";
  rig.cpu().emit(10);
  busy.run();
}

// A hard SLO is about answers.
TEST_F(Tokenize, is_refused_for_no_slo) {
  policy::Facts facts = make_hardware();
  facts.set("backend.cpu.expected_ttft", std::int64_t{9'000'000}, "predicted: test");
  facts.set("backend.cpu.meets_slo", false, "predicted: test");
  Rig slow(make_settings(), facts);
  slow.settings->apps[0].slo.ttft = std::chrono::milliseconds(10);
  slow.settings->apps[0].slo.hard = true;
  slow.cpu();
  for (const std::string_view path : {kChatPath, std::string_view("/tokenize")}) {
    Wire wire(slow);
    wire.send(post(path, kHello));
    EXPECT_EQ(wire.answer().status, path == kChatPath ? 503 : 200) << wire.answer().body;
  }
}

TEST_F(Tokenize, another_engine_takes_over_and_the_tokens_come_once) {
  die_once(rig.cpu(), 0, ErrorCode::worker_died);
  EXPECT_EQ(json::parse(tokenize(R"({"prompt":"x"})").body)["count"], 7);
  EXPECT_EQ(rig.cpu().started.size(), 2U);
}

TEST_F(Tokenize, is_for_apps_alone) {
  Wire wire(rig);
  wire.send(post("/tokenize", R"({"prompt":"x"})", "key-nobody"));
  EXPECT_EQ(wire.answer().status, 401);
}

// The documents are written piece by piece.
TEST(PromptAnswers, are_whole_however_long) {
  api::Choice choice;
  for (Token token = 0; token < 100'000; ++token) choice.prompt.push_back(token);
  const auto count = api::count_writer("input_tokens");
  std::string out;
  EXPECT_FALSE(count->whole({&choice, 1}, {}, out));
  EXPECT_EQ(out, R"({"input_tokens":100000})");
}

TEST_F(Tokenize, long_prompts_come_whole) {
  std::string text(200'000, 'x');
  for (std::size_t i = 0; i < text.size(); i += 3) text[i] = '"';
  std::vector<Token> prompt;
  for (Token token = 0; token < 50'000; ++token) prompt.push_back(token % 1000);
  rig.cpu().prompt = prompt;
  rig.cpu().prompt_text = text;
  EXPECT_EQ(json::parse(tokenize(R"({"prompt":"x"})").body)["tokens"], json(prompt));
  const json spelled = json::parse(detokenize(R"({"tokens":[1]})").body);
  EXPECT_EQ(spelled["prompt"], json(text));
  EXPECT_EQ(spelled["content"], json(text));
}

}  // namespace
}  // namespace flyball::testing
