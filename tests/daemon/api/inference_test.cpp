// Requests that go well: what the client sees, field by field.
#include "tests/daemon/api/inference.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

TEST_F(InferenceTest, chat) {
  const Answer answer = ask(kHello);
  ASSERT_EQ(answer.status, 200);
  const json body = json::parse(answer.body);
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "demo");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "t0 t1 t2 t3 ");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["total_tokens"], 11);
  EXPECT_EQ(answer.field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  EXPECT_TRUE(answer.field("x-request-id").starts_with("req-"));
  const auto& started = rig.cpu().started.at(0);
  EXPECT_EQ(test::text_of(std::get<ChatPrompt>(started.prompt).messages), R"([{"role":"user","content":"Hi"}])");
}

TEST_F(InferenceTest, content_is_text_unless_the_apps_manifest_says_otherwise) {
  for (const bool recognised : {false, true}) {
    rig.settings->apps[0].chat.control_tokens_in_content = recognised;
    ASSERT_EQ(ask(kHello).status, 200);
    const auto& started = rig.cpu().started.back();
    EXPECT_EQ(std::get<ChatPrompt>(started.prompt).control_tokens_in_content, recognised);
  }
}

TEST_F(InferenceTest, RefusesUnknownFieldsBeforeAnEngineIsAskedUnlessTheManifestAcceptsThem) {
  constexpr std::string_view kMisspelt =
      R"({"model":"demo","messages":[{"role":"user","content":"Hi","colour":"red"}],"tempreature":0.5})";
  for (const std::string_view path : {kChatPath, std::string_view("/v1/route/explain")}) {
    const Answer refused = ask(kMisspelt, path);
    EXPECT_EQ(refused.status, 400);
    const json error = json::parse(refused.body)["error"];
    EXPECT_EQ(error["code"], "unknown_field");
    EXPECT_EQ(error["param"], "tempreature");
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(
        error["message"],
        "The body has an unknown field \"tempreature\"; did you mean \"temperature\"? An app whose manifest "
        "says `unknown_fields: accept` may send it.");
  }
  EXPECT_TRUE(rig.cpu().started.empty());

  rig.settings->apps[0].accepts_unknown_fields = true;
  const json expected = {"tempreature", "messages[0].colour"};
  const Answer answer = ask(kMisspelt);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(rig.cpu().started.at(0).sampling.temperature, 1.0F);
  Wire wire(rig);
  wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
  EXPECT_EQ(json::parse(wire.answer().body)["ignored_fields"], expected);
  EXPECT_EQ(json::parse(ask(kMisspelt, "/v1/route/explain").body)["ignored_fields"], expected);
  EXPECT_FALSE(json::parse(ask(kHello, "/v1/route/explain").body).contains("ignored_fields"));
  EXPECT_EQ(ask(R"({"messages":[{"role":"user","content":"Hi"}],"grammar":"root ::= x"})").status, 400)
      << "a known field that is not served stays refused";
}

TEST_F(InferenceTest, stream) {
  const Answer answer = ask(kHelloStream);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.field("Content-Type").starts_with("text/event-stream"));
  EXPECT_EQ(answer.field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  const auto chunks = frames(answer);
  EXPECT_EQ(text_of(chunks), "t0 t1 t2 t3 ");
  EXPECT_EQ(chunks.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(chunks.back()["choices"][0]["finish_reason"], "stop");
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_EQ(chunk["id"], chunks.front()["id"]);
  }
}

TEST_F(InferenceTest, usage_in_a_stream_comes_last_and_is_null_before) {
  const auto chunks = frames(ask(
      R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{"include_usage":true}})"));
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 4);
}

TEST_F(InferenceTest, several_answers_have_their_own_seeds) {
  const auto body = json::parse(ask(R"({"messages":[{"role":"user","content":"Hi"}],"n":3,"seed":40})").body);
  ASSERT_EQ(body["choices"].size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(rig.cpu().started.at(static_cast<std::size_t>(i)).sampling.seed,
              40U + static_cast<unsigned>(i));
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);  // shared
  EXPECT_EQ(body["usage"]["completion_tokens"], 12);
  const auto chunks = frames(ask(R"({"messages":[{"role":"user","content":"Hi"}],"n":2,"stream":true})"));
  EXPECT_EQ(text_of(chunks, 0), text_of(chunks, 1));
}

TEST_F(InferenceTest, a_seed_is_drawn_where_none_is_given) {
  ask(kHello);
  ask(kHello);
  EXPECT_NE(rig.cpu().started[0].sampling.seed, rig.cpu().started[1].sampling.seed);
}

TEST_F(InferenceTest, chat_logprobs) {
  const auto body = json::parse(
      ask(R"({"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":2})").body);
  const json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4U);
  EXPECT_EQ(content[0]["token"], "t0 ");
  EXPECT_EQ(content[0]["bytes"], json::parse("[116,48,32]"));
  EXPECT_EQ(content[0]["logprob"], -0.25);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "alt1");
}

// Also one that has no text, as an end token has none.
TEST_F(InferenceTest, logprobs_list_as_many_tokens_as_usage_counts) {
  script(rig.cpu(), Script{.tokens = 3, .empty_first = true});
  const auto listed = [](const json& choices) {
    std::size_t n = 0;
    for (const json& choice : choices)
      if (const json& logprobs = choice["logprobs"]; !logprobs.is_null())
        n += logprobs[logprobs.contains("content") ? "content" : "tokens"].size();
    return n;
  };
  for (const auto& [path, fields] :
       {std::pair("/v1/chat/completions", R"("messages":[{"role":"user","content":"Hi"}],"logprobs":true)"),
        std::pair("/v1/completions", R"("prompt":"Hi","logprobs":0)")}) {
    const std::string request = std::string("{") + fields + R"(,"n":2)";
    const json whole = json::parse(ask(request + "}", path).body);
    EXPECT_EQ(listed(whole["choices"]), 6U) << path;
    EXPECT_EQ(whole["usage"]["completion_tokens"], 6) << path;
    const auto chunks =
        frames(ask(request + R"(,"stream":true,"stream_options":{"include_usage":true}})", path));
    std::size_t n = 0;
    for (const json& chunk : chunks) n += listed(chunk["choices"]);
    EXPECT_EQ(n, 6U) << path;
    EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 6) << path;
  }
  die_once(rig.cpu(), 2);
  const json resumed = json::parse(ask(R"({"prompt":"Hi","logprobs":0})", "/v1/completions").body);
  EXPECT_EQ(rig.cpu().started.back().resume_tokens.size(), 2U);
  EXPECT_EQ(listed(resumed["choices"]), 6U);
  EXPECT_EQ(resumed["usage"]["completion_tokens"], 6);
}

TEST_F(InferenceTest, legacy_completions) {
  const auto body = json::parse(ask(R"({"prompt":["a","b"],"n":2,"logprobs":1})", "/v1/completions").body);
  EXPECT_EQ(body["object"], "text_completion");
  ASSERT_EQ(body["choices"].size(), 4U);
  EXPECT_EQ(body["choices"][3]["text"], "t0 t1 t2 t3 ");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"].size(), 4U);
  EXPECT_EQ(body["choices"][0]["logprobs"]["text_offset"], json::parse("[0,3,6,9]"));
  EXPECT_EQ(body["choices"][0]["logprobs"]["top_logprobs"][0]["alt0"], -0.25);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 14);  // two prompts
  EXPECT_EQ(rig.cpu().started[0].max_tokens, 16U);
  EXPECT_EQ(std::get<TextPrompt>(rig.cpu().started[2].prompt).text, "b");
  ask(R"({"prompt":[1,2,3]})", "/v1/completions");
  EXPECT_EQ(std::get<TokenPrompt>(rig.cpu().started.back().prompt).tokens, (std::vector<Token>{1, 2, 3}));
}

TEST_F(InferenceTest, ASuffixIsServedUnlessTheModelsFileLacksInfillTokens) {
  constexpr std::string_view kGap = R"({"prompt":["a","b"],"suffix":"c","n":2,"max_tokens":3})";
  for (const std::optional<bool> infills : {std::optional<bool>(), std::optional<bool>(true)}) {
    rig.settings->files.infos["demo"].infills = infills;
    const Answer answer = ask(kGap, "/v1/completions");
    ASSERT_EQ(answer.status, 200) << answer.body;
    const auto& prompt = std::get<InfillPrompt>(rig.cpu().started.back().prompt);
    EXPECT_EQ(prompt.before, "b");
    EXPECT_EQ(*prompt.after, "c");
    EXPECT_EQ(json::parse(answer.body)["choices"].size(), 4U);
  }
  rig.settings->files.infos["demo"].infills = false;
  const std::size_t asked = rig.cpu().started.size();
  const Answer refused = ask(kGap, "/v1/completions");
  EXPECT_EQ(refused.status, 400);
  const json error = json::parse(refused.body)["error"];
  EXPECT_EQ(error["code"], "unsupported_feature");
  EXPECT_EQ(error["param"], "suffix");
  EXPECT_EQ(error["message"],
            "'suffix' is not served. Flyball cannot fill in between two texts with a model that has no infill "
            "tokens.");
  const Answer ollama = ask(R"({"model":"demo","prompt":"a","suffix":"b"})", "/api/generate");
  EXPECT_EQ(ollama.status, 400) << ollama.body;
  EXPECT_EQ(rig.cpu().started.size(), asked) << "no engine was asked";
}

TEST_F(InferenceTest, AnAnswerBetweenTwoTextsGoesOnWhereItsEngineDied) {
  die_once(rig.cpu(), 2);
  ASSERT_EQ(ask(R"({"prompt":"a","suffix":"c","max_tokens":4})", "/v1/completions").status, 200);
  ASSERT_EQ(rig.cpu().started.size(), 2U);
  const auto& prompt = std::get<InfillPrompt>(rig.cpu().started[1].prompt);
  EXPECT_EQ(prompt.before, "a");
  EXPECT_EQ(*prompt.after, "c");
  EXPECT_EQ(rig.cpu().started[1].resume_tokens.size(), 2U);
}

}  // namespace
}  // namespace flyball::testing
