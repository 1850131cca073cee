// Answers with reasoning and calls of tools, byte for byte as the clients of OpenAI's and Ollama's APIs get
// them. The real codecs, and a parser that says what each piece of the fake engine's text is.
#include <array>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/api/native/codec.hpp"
#include "daemon/api/ollama/codec.hpp"
#include "daemon/api/openai/codec.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::testing {
namespace {

using api::AnswerEvents;
namespace event = api::event;

// Each piece of text stands for the next batch of these.
std::vector<AnswerEvents> the_batches;
AnswerEvents the_end;
std::size_t the_reasoned = 0;  // how many of the batches are reasoning

class ScriptedParser final : public api::TextParser {
 public:
  void parse(std::string_view, bool, AnswerEvents& out) override {
    if (piece_ < the_batches.size()) add(the_batches[piece_], out);
    ++piece_;
  }
  void end(AnswerEvents& out) override { add(the_end, out); }
  bool in_reasoning() const noexcept override { return piece_ < the_reasoned; }

 private:
  static void add(const AnswerEvents& batch, AnswerEvents& out) {
    for (const api::AnswerEvent& one : batch) out.push_back(one);
  }
  std::size_t piece_ = 0;
};

Result<api::Operation> with_parser(Result<api::Operation> operation) {
  if (operation)
    if (auto* const asked = std::get_if<api::Generate>(&*operation))
      asked->parser = [](const AnswerForm&, std::string_view) { return std::make_unique<ScriptedParser>(); };
  return operation;
}

api::Codec scripted(const api::Codec& codec,
                    Result<api::Operation> (*parse)(const api::Route&, const http::Request&)) {
  api::Codec out = codec;
  out.parse = parse;
  return out;
}

api::Codecs scripted_codecs() {
  static const api::Codec openai =
      scripted(api::openai::kCodec, [](const api::Route& route, const http::Request& request) {
        return with_parser(api::openai::kCodec.parse(route, request));
      });
  static const api::Codec ollama =
      scripted(api::ollama::kCodec, [](const api::Route& route, const http::Request& request) {
        return with_parser(api::ollama::kCodec.parse(route, request));
      });
  static const std::array<const api::Codec*, 3> codecs{&api::native::kCodec, &openai, &ollama};
  return codecs;
}

struct ToolCalls : ::testing::Test {
  // The body of the answer, ids and times masked.
  std::string talk(std::string_view path, std::string_view body) {
    rig.cpu().script = [this](const CompletionRequest&) { return script; };
    Wire wire(rig);
    wire.send(post(path, body));
    return masked(wire.answer().body);
  }
  std::string chat(const std::string& members) {
    return talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}])" + members + "}");
  }
  std::string ollama(const std::string& members) {
    return talk("/api/chat", R"({"messages":[{"role":"user","content":"Hi"}])" + members + "}");
  }
  static std::string masked(std::string text) {
    text = std::regex_replace(text, std::regex("chatcmpl-[0-9a-f]{16}"), "chatcmpl-ID");
    text = std::regex_replace(text, std::regex("\"created\":[0-9]{10}"), "\"created\":TIME");
    text =
        std::regex_replace(text, std::regex("\"created_at\":\"[0-9TZ:-]{20}\""), "\"created_at\":\"TIME\"");
    return std::regex_replace(text, std::regex("(total|load)_duration\":[0-9]+"), "$1_duration\":NS");
  }

  // Two pieces of reasoning, one of text, two calls.
  void SetUp() override {
    the_batches = std::vector<AnswerEvents>{
        {event::Reasoning{"Hm"}},
        {event::Reasoning{", rain?"}},
        {event::Text{"I look."}},
        {event::CallBegin{0, "call_1", "weather"}, event::CallArguments{0, "{\"city\":\n"}},
        {event::CallArguments{0, "\"Paris\"}"}, event::CallEnd{0}},
        {event::CallBegin{1, "call_2", "time"}, event::CallArguments{1, "{}"}}};
    the_end = AnswerEvents{event::CallEnd{1}};
    the_reasoned = 2;
    script.tokens = 6;
  }
  // An answer that only calls, and breaks off in the arguments.
  void break_off() {
    the_batches = std::vector<AnswerEvents>{
        {event::CallBegin{0, "call_1", "weather"}, event::CallArguments{0, "{\"city\":"}}};
    the_end = AnswerEvents{event::CallEnd{0, false}};
    the_reasoned = 0;
    script.tokens = 2;
  }

  Rig rig{make_settings(), make_hardware(), nullptr, scripted_codecs()};
  Script script;
};

TEST_F(ToolCalls, WholeChat) {
  EXPECT_EQ(
      chat(""),
      R"({"id":"chatcmpl-ID","object":"chat.completion","created":TIME,"model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":"I look.","refusal":null,"reasoning_content":"Hm, rain?","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\n\"Paris\"}"}},{"id":"call_2","type":"function","function":{"name":"time","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":6,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}
)");
}

TEST_F(ToolCalls, WholeChatWithoutText) {
  break_off();
  EXPECT_EQ(
      chat(R"(,"max_tokens":1)"),
      R"({"id":"chatcmpl-ID","object":"chat.completion","created":TIME,"model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":"}}]},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(ToolCalls, StreamedChat) {
  EXPECT_EQ(
      chat(R"(,"stream":true,"stream_options":{"include_usage":true})"),
      R"(data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"reasoning_content":"Hm"},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"reasoning_content":", rain?"},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"I look."},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\n"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Paris\"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"time","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":6,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}

data: [DONE]

)");
}

// Each token has one entry, beside whatever its text has become.
TEST_F(ToolCalls, LogprobsListEachTokenOnce) {
  const auto add_tokens = [](const nlohmann::json& choice, std::string& out) {
    if (!choice.at("logprobs").is_null())
      for (const auto& token : choice["logprobs"].at("content")) out += token.at("token").get<std::string>();
  };
  const auto answer = [&](const std::string& members) {
    rig.cpu().script = [this](const CompletionRequest&) { return script; };
    Wire wire(rig);
    wire.send(
        post(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"logprobs":true)" + members + "}"));
    return wire.answer();
  };
  std::string streamed, whole;
  for (const nlohmann::json& chunk : frames(answer(R"(,"stream":true)")))
    add_tokens(chunk.at("choices").at(0), streamed);
  EXPECT_EQ(streamed, "t0 t1 t2 t3 t4 t5 ");
  add_tokens(nlohmann::json::parse(answer("").body).at("choices").at(0), whole);
  EXPECT_EQ(whole, streamed);
}

TEST_F(ToolCalls, WholeOllamaChat) {
  EXPECT_EQ(
      ollama(R"(,"stream":false)"),
      R"({"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"I look.","thinking":"Hm, rain?","tool_calls":[{"id":"call_1","function":{"index":0,"name":"weather","arguments":{"city": "Paris"}}},{"id":"call_2","function":{"index":1,"name":"time","arguments":{}}}]},"done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":6,"eval_duration":30000}
)");
}

TEST_F(ToolCalls, StreamedOllamaChat) {
  EXPECT_EQ(
      ollama(""),
      R"({"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"","thinking":", rain?"},"done":false}
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"I look."},"done":false}
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"weather","arguments":{"city": "Paris"}}}]},"done":false}
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_2","function":{"index":1,"name":"time","arguments":{}}}]},"done":false}
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":6,"eval_duration":30000}
)");
}

TEST_F(ToolCalls, AnOllamaCallThatBreaksOffIsText) {
  break_off();
  EXPECT_EQ(
      ollama(R"(,"stream":false)"),
      R"({"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"{\"name\":\"weather\",\"arguments\":{\"city\":"},"done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":2,"eval_duration":30000}
)");
  EXPECT_EQ(
      ollama(""),
      R"({"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"{\"name\":\"weather\",\"arguments\":{\"city\":"},"done":false}
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":2,"eval_duration":30000}
)");
}

TEST_F(ToolCalls, OllamaTextsHaveTheirReasoningApart) {
  the_batches.resize(3);
  the_end.clear();
  script.tokens = 3;
  EXPECT_EQ(
      talk("/api/generate", R"({"prompt":"Hi","stream":false})"),
      R"({"model":"demo","created_at":"TIME","response":"I look.","thinking":"Hm, rain?","done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":3,"eval_duration":30000}
)");
  EXPECT_EQ(talk("/api/generate", R"({"prompt":"Hi"})"),
            R"({"model":"demo","created_at":"TIME","response":"","thinking":"Hm","done":false}
{"model":"demo","created_at":"TIME","response":"","thinking":", rain?","done":false}
{"model":"demo","created_at":"TIME","response":"I look.","done":false}
{"model":"demo","created_at":"TIME","response":"","done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":3,"eval_duration":30000}
)");
}

// ---- a model whose chat template has no place for tools ---------------------------------------------------

struct ToldTools : InferenceTest {
  ToldTools() { rig.settings->files.infos["demo"].tool_template = false; }

  // The messages that the engine gets.
  nlohmann::json messages() {
    const auto& prompt = std::get<ChatPrompt>(rig.cpu().started.back().prompt);
    EXPECT_TRUE(prompt.tools.empty());
    return nlohmann::json::parse(test::text_of(prompt.messages));
  }
  nlohmann::json receipt(const Answer& answer) {
    Wire wire(rig);
    wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
    return nlohmann::json::parse(wire.answer().body);
  }
};

constexpr std::string_view kToldNote =
    "Tools and calls are told to the model as text: its chat template has no place for them.";
constexpr std::string_view kOneTool = R"("tools":[{"type":"function","function":{"name":"time"}}])";

TEST_F(ToldTools, StandInASystemMessage) {
  const Answer answer = ask(R"({"messages":[{"role":"user","content":"Hi"}],"tool_choice":"required",)" +
                            std::string(kOneTool) + "}");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("x-flyball-note"), kToldNote);
  ASSERT_EQ(messages().size(), 2U);
  const auto content = messages()[0]["content"].get<std::string>();
  EXPECT_NE(content.find(R"({"name": "time"})"), std::string::npos) << content;
  EXPECT_TRUE(content.ends_with("Answer with a call now.")) << content;
  EXPECT_EQ(receipt(answer).value("tools_in_system_message", false), true);
}

TEST_F(ToldTools, AreNotToldToOtherModels) {
  for (const std::optional<bool> place : {std::optional<bool>(true), std::optional<bool>()}) {
    rig.settings->files.infos["demo"].tool_template = place;
    const Answer answer =
        ask(R"({"messages":[{"role":"user","content":"Hi"}],)" + std::string(kOneTool) + "}");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("x-flyball-note"), "");
    EXPECT_FALSE(std::get<ChatPrompt>(rig.cpu().started.back().prompt).tools.empty());
    EXPECT_FALSE(receipt(answer).contains("tools_in_system_message"));
  }
}

TEST_F(ToldTools, LeaveChatsWithoutToolsAsTheyAre) {
  const Answer answer = ask(R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(answer.field("x-flyball-note"), "");
  EXPECT_EQ(messages().size(), 1U);
  EXPECT_EQ(ask(R"({"prompt":"Hi"})", "/v1/completions").status, 200);
}

// Also where the chat offers none any more, and behind what else there is to note.
TEST_F(ToldTools, StandInTheHistoryAsText) {
  const Answer answer =
      ask(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[)"
          R"({"id":"c","type":"function","function":{"name":"time","arguments":"now"}}]},)"
          R"({"role":"tool","tool_call_id":"c","content":"noon"}],"tool_choice":"none",)" +
          std::string(kOneTool) + "}");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.field("x-flyball-note").starts_with("messages[1].tool_calls[0]"));
  EXPECT_TRUE(answer.field("x-flyball-note").ends_with(" " + std::string(kToldNote)));
  ASSERT_EQ(messages().size(), 3U);
  EXPECT_EQ(messages()[1]["content"], R"({"name": "time", "arguments": "now"})");
  EXPECT_EQ(messages()[2]["content"], "Tool result of time: noon");
}

// A large chat is rewritten off the loop.
TEST_F(ToldTools, StandInLargeChatsToo) {
  const std::string text(100'000, 'x');
  const Answer answer =
      ask(R"({"messages":[{"role":"user","content":")" + text + R"("}],)" + std::string(kOneTool) + "}");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("x-flyball-note"), kToldNote);
  ASSERT_EQ(messages().size(), 2U);
  EXPECT_EQ(messages()[1]["content"], text);
}

}  // namespace
}  // namespace flyball::testing
