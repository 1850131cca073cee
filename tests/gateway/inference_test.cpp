// Requests that go well, and requests whose engine or client leaves half way: what the client sees, byte for
// byte where it matters.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gateway/wire.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

const std::string kChatBody = "/v1/chat/completions";

// The JSON of each "data:" line; the sentinel is checked and left out.
std::vector<json> frames(const Answer& answer) {
  std::vector<json> out;
  std::string_view rest = answer.body;
  bool done = false;
  while (!rest.empty()) {
    const auto end = rest.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    const auto frame = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    EXPECT_FALSE(done) << "a frame behind [DONE]";
    if (frame == "data: [DONE]")
      done = true;
    else if (frame.starts_with("data: "))
      out.push_back(json::parse(frame.substr(6)));
    else
      EXPECT_TRUE(frame.starts_with(":")) << frame;
  }
  EXPECT_TRUE(done);
  return out;
}

std::string text_of(const std::vector<json>& chunks, int index = 0) {
  std::string out;
  for (const json& chunk : chunks)
    for (const json& choice : chunk.at("choices"))
      if (choice["index"] == index && choice["delta"].contains("content"))
        out += choice["delta"]["content"].get<std::string>();
  return out;
}

struct InferenceTest : ::testing::Test {
  Rig rig{make_settings(), make_hardware(true)};
  Answer ask(std::string_view body, std::string_view path = "/v1/chat/completions") {
    Wire wire(rig);
    wire.send(post(path, body));
    return wire.answer();
  }
  void script(FakeBackend& backend, Script s) {
    backend.script = [s](const CompletionRequest&) { return s; };
  }
  // The first attempt dies after `tokens`; later ones run to the end.
  void die_once(FakeBackend& backend, std::uint32_t tokens, ErrorCode code = ErrorCode::worker_died) {
    backend.script = [=, n = 0](const CompletionRequest&) mutable {
      Script s;
      s.tokens = 6;
      if (n++ == 0) {
        s.fail_after = tokens;
        s.error = {code, "It failed.", {}, {}};
      }
      return s;
    };
  }
};

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
  EXPECT_EQ(std::get<ChatPrompt>(started.prompt).messages_json, R"([{"role":"user","content":"Hi"}])");
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

// ---- engines that fail
// ---------------------------------------------------------------------------------------

TEST_F(InferenceTest, a_stream_survives_its_engine_at_every_token) {
  script(rig.cpu(), Script{.tokens = 6});
  const std::string whole = text_of(frames(ask(kHelloStream)));
  for (std::uint32_t at = 0; at < 6; ++at) {
    die_once(rig.cpu(), at);
    const Answer answer = ask(kHelloStream);
    const auto chunks = frames(answer);
    EXPECT_EQ(text_of(chunks), whole) << at;
    EXPECT_EQ(rig.cpu().started.back().resume_tokens.size(), at);
    std::size_t delivered = 0;
    for (std::uint32_t i = 0; i < at; ++i) delivered += 3;
    EXPECT_EQ(rig.cpu().started.back().resume_text_bytes, delivered);
    EXPECT_EQ(rig.cpu().started.back().sampling.seed,
              rig.cpu().started[rig.cpu().started.size() - 2].sampling.seed);
    // One role chunk, one id, no trace of the death but in the receipt.
    const json receipt = json::parse([&] {
      Wire wire(rig);
      wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
      return wire.answer().body;
    }());
    EXPECT_EQ(receipt["state"], "done");
    ASSERT_EQ(receipt["attempts"].size(), 2U);
    EXPECT_EQ(receipt["attempts"][0]["outcome"], "worker_died");
    EXPECT_EQ(receipt["attempts"][1]["resumed_tokens"], at);
  }
}

TEST_F(InferenceTest, a_whole_answer_survives_its_engine_too) {
  die_once(rig.cpu(), 3);
  const auto body = json::parse(ask(kHello).body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "t0 t1 t2 t3 t4 t5 ");
  EXPECT_EQ(body["usage"]["completion_tokens"], 6);
}

TEST_F(InferenceTest, a_lost_device_moves_to_the_next_target) {
  die_once(rig.cpu(), 2, ErrorCode::device_lost);
  script(rig.vulkan(), Script{.tokens = 6});
  const Answer answer = ask(kHello);
  EXPECT_EQ(json::parse(answer.body)["choices"][0]["message"]["content"], "t0 t1 t2 t3 t4 t5 ");
  EXPECT_EQ(answer.field("x-flyball-route"), "backend=vulkan; rule=everything; model=demo");
  EXPECT_EQ(rig.vulkan().started.at(0).resume_tokens.size(), 2U);
  Wire metrics(rig, {.loopback = true, .unix_uid = {}, .address = {}});
  metrics.send(get("/metrics", ""));
  EXPECT_NE(metrics.answer().body.find("flyball_fallbacks_total{from=\"cpu\",to=\"vulkan\"} 1"),
            std::string::npos);
}

TEST_F(InferenceTest, an_unavailable_model_moves_to_the_next_target) {
  rig.fleet.acquire_errors["cpu"] = {{ErrorCode::model_unavailable, "It will not start.", {}, {}}};
  EXPECT_EQ(ask(kHello).field("x-flyball-route"), "backend=vulkan; rule=everything; model=demo");
  rig.fleet.acquire_errors["cpu"] = {{ErrorCode::model_unavailable, "No.", {}, {}}};
  rig.fleet.acquire_errors["vulkan"] = {{ErrorCode::insufficient_memory, "Needs 10, has 5.", {}, {}}};
  const Answer answer = ask(kHello);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "insufficient_memory");
}

// Three deaths disable an engine for everybody: one request may not cause them all.
TEST_F(InferenceTest, a_request_that_kills_engines_is_stopped) {
  Script dies;
  dies.fail_after = 0;
  script(rig.cpu(), dies);
  const Answer answer = ask(kHello);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "worker_died");
  EXPECT_EQ(rig.cpu().started.size(), 2U);
}

TEST_F(InferenceTest, an_error_in_a_stream_is_a_frame_and_then_done) {
  Script fails;
  fails.fail_after = 2;
  fails.error = {ErrorCode::numeric_error, "A logit is not a number.", {}, {}};
  script(rig.cpu(), fails);
  const Answer answer = ask(kHelloStream);
  EXPECT_EQ(answer.status, 200);
  const auto chunks = frames(answer);
  EXPECT_EQ(chunks.back()["error"]["code"], "numeric_error");
  EXPECT_EQ(chunks.back()["error"]["param"], nullptr);
}

TEST_F(InferenceTest, an_error_before_the_first_token_has_its_status_even_when_streaming) {
  Script fails;
  fails.fail_after = 0;
  fails.error = {ErrorCode::context_length_exceeded, "9 tokens do not fit 8.", "messages", {}};
  script(rig.cpu(), fails);
  EXPECT_EQ(ask(kHelloStream).status, 400);
}

// ---- clients that leave or fall behind
// -----------------------------------------------------------------------

TEST_F(InferenceTest, a_disconnect_cancels_while_loading_in_prefill_and_in_decode) {
  for (const auto body : {kHello, kHelloStream}) {
    rig.fleet.hold_acquires = true;  // loading
    Wire loading(rig);
    loading.send(post(kChatBody, body));
    EXPECT_EQ(rig.service.in_flight(), 1U);
    loading.hang_up();
    EXPECT_EQ(rig.service.in_flight(), 0U);
    rig.fleet.hold_acquires = false;

    script(rig.cpu(), Script{.manual = true});
    for (const std::uint32_t tokens : {0U, 2U}) {  // prefill, decode
      const auto before = rig.cpu().cancelled;
      Wire wire(rig);
      wire.send(post(kChatBody, body));
      rig.cpu().emit(tokens);
      wire.run();
      ASSERT_EQ(rig.cpu().live(), 1U);
      wire.hang_up();
      EXPECT_EQ(rig.cpu().live(), 0U);
      EXPECT_EQ(rig.cpu().cancelled, before + 1);
      EXPECT_EQ(rig.service.in_flight(), 0U);
    }
  }
  Wire metrics(rig, {.loopback = true, .unix_uid = {}, .address = {}});
  metrics.send(get("/metrics", ""));
  EXPECT_NE(metrics.answer().body.find("status=\"499\""), std::string::npos);
}

TEST_F(InferenceTest, a_reader_that_stops_pauses_the_engine_and_reading_on_resumes_it) {
  script(rig.cpu(), Script{.tokens = 200, .token_bytes = 1000});
  Wire wire(rig);
  wire.stop_reading();
  wire.send(post(kChatBody, kHelloStream));
  EXPECT_EQ(rig.cpu().paused, 1U);
  EXPECT_LT(wire.connection().output().size(), rig.settings->config.http.stream_buffer_bytes + 4096);
  const auto emitted = rig.cpu().emitted;
  wire.run();
  EXPECT_EQ(rig.cpu().emitted, emitted);
  wire.start_reading();
  EXPECT_EQ(rig.cpu().emitted, 200U);
  EXPECT_EQ(frames(wire.answer()).size(), 202U);  // the role, 200 tokens, the reason
}

TEST_F(InferenceTest, a_reader_that_never_reads_on_is_cancelled) {
  script(rig.cpu(), Script{.tokens = 200, .token_bytes = 1000});
  Wire wire(rig);
  wire.stop_reading();
  wire.send(post(kChatBody, kHelloStream));
  wire.advance(rig.settings->config.http.stalled_reader_timeout);
  EXPECT_TRUE(wire.connection().closed());
  EXPECT_EQ(rig.cpu().cancelled, 1U);
}

TEST_F(InferenceTest, a_stream_that_waits_has_a_heartbeat) {
  script(rig.cpu(), Script{.manual = true});
  Wire wire(rig);
  wire.send(post(kChatBody, kHelloStream));
  EXPECT_EQ(wire.received(), "");
  wire.advance(rig.settings->config.http.heartbeat);
  EXPECT_NE(wire.received().find(": keep-alive\n\n"), std::string::npos);
  rig.cpu().emit(5);
  wire.run();
  EXPECT_EQ(text_of(frames(wire.answer())), "t0 t1 t2 t3 ");
}

// ---- deciding
// ------------------------------------------------------------------------------------------------

TEST_F(InferenceTest, nothing_available_is_no_target) {
  Rig bare(make_settings(), policy::Facts{});
  Wire wire(bare);
  wire.send(post(kChatBody, kHello));
  EXPECT_EQ(wire.answer().status, 503);
  EXPECT_EQ(json::parse(wire.answer().body)["error"]["code"], "no_target");
}

TEST_F(InferenceTest, a_disabled_engine_is_passed_over) {
  ask(kHello);
  rig.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
  EXPECT_EQ(ask(kHello).field("x-flyball-route"), "backend=vulkan; rule=everything; model=demo");
}

// No engine is left because they died too often: the cause, not a word about the policy.
TEST_F(InferenceTest, nothing_but_disabled_engines_is_model_unavailable_with_the_cause) {
  rig.cpu();
  rig.fleet.backend("demo", "vulkan");
  for (const char* engine : {"cpu", "vulkan"})
    rig.fleet.disabled[engine] = {
        ErrorCode::model_unavailable, std::string(engine) + " died 3 times.", {}, {}};
  const auto answer = ask(kHello);
  EXPECT_EQ(answer.status, 503);
  const auto error = json::parse(answer.body)["error"];
  EXPECT_EQ(error["code"], "model_unavailable");
  EXPECT_EQ(error["message"], "cpu died 3 times.");
}

// on_unavailable: queue. The request waits, and goes on when the engine is back.
TEST_F(InferenceTest, a_rule_may_let_requests_wait_for_their_engine) {
  auto settings = make_settings();
  for (auto* rule : {&settings->tree.rules[0], &settings->tree.fallback}) {
    rule->use = {{"cpu", "", 0, 0}};
    rule->on_unavailable = policy::OnUnavailable::queue;
  }
  Rig waiting(settings);
  waiting.cpu();
  waiting.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
  Wire wire(waiting);
  wire.send(post(kChatBody, kHello));
  EXPECT_EQ(wire.received(), "");
  waiting.fleet.disabled.clear();
  for (int i = 0; i < 1000 && wire.received().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    wire.run();
  }
  EXPECT_EQ(wire.answer().status, 200);
}

TEST_F(InferenceTest, a_deadline_refuses_what_has_not_begun) {
  auto settings = make_settings();
  settings->apps[0].slo.deadline = std::chrono::milliseconds(100);
  Rig late(settings);
  late.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  Wire begun(late), waiting(late);
  begun.send(post(kChatBody, kHello));
  late.cpu().emit(1);
  waiting.send(post(kChatBody, kHello));
  for (int i = 0; i < 1000 && waiting.received().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    waiting.run();
  }
  EXPECT_EQ(waiting.answer().status, 503);
  EXPECT_EQ(json::parse(waiting.answer().body)["error"]["code"], "overloaded");
  late.cpu().emit(5);
  begun.run();
  EXPECT_EQ(begun.answer().status, 200);
}

TEST_F(InferenceTest, explain_decides_without_running) {
  const json receipt = json::parse(
      ask(R"({"messages":[{"role":"user","content":"Hi"}],"facts":{"backend.cpu.available":false}})",
          "/v1/route/explain")
          .body);
  EXPECT_TRUE(rig.cpu().started.empty() && rig.vulkan().started.empty());
  EXPECT_EQ(receipt["state"], "explained");
  EXPECT_EQ(receipt["app"], "alice");
  Wire wire(rig);
  wire.send(post("/v1/route/explain", R"({"model":"demo"})"));
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  EXPECT_EQ(ask(R"({"facts":{"no.such.fact":1}})", "/v1/route/explain").status, 400);
  EXPECT_EQ(ask(R"({"facts":{"request.n":"many"}})", "/v1/route/explain").status, 400);
}

TEST_F(InferenceTest, receipts_belong_to_their_app) {
  const std::string path = "/v1/route/receipts/" + ask(kHello).field("x-request-id");
  Wire alice(rig), bob(rig);
  alice.send(get(path));
  EXPECT_EQ(alice.answer().status, 200);
  const json receipt = json::parse(alice.answer().body);
  EXPECT_EQ(receipt["usage"]["completion_tokens"], 4);
  EXPECT_TRUE(receipt["timings"].contains("total_ms"));
  bob.send(get(path, "key-bob"));
  EXPECT_EQ(bob.answer().status, 404);
}

TEST_F(InferenceTest, draining_refuses_what_is_new_and_finishes_what_runs) {
  script(rig.cpu(), Script{.manual = true});
  Wire running(rig), fresh(rig);
  running.send(post(kChatBody, kHelloStream));
  rig.cpu().emit(1);
  running.run();
  rig.service.start_draining();
  fresh.send(post(kChatBody, kHello));
  EXPECT_EQ(fresh.answer().status, 503);
  EXPECT_EQ(json::parse(fresh.answer().body)["error"]["code"], "shutting_down");
  rig.cpu().emit(5);
  running.run();
  EXPECT_EQ(text_of(frames(running.answer())), "t0 t1 t2 t3 ");
  Wire ready(rig);
  ready.send(get("/readyz"));
  EXPECT_EQ(ready.answer().status, 503);
}

TEST_F(InferenceTest, a_drain_that_takes_too_long_ends_streams_with_a_frame) {
  script(rig.cpu(), Script{.manual = true});
  Wire wire(rig);
  wire.send(post(kChatBody, kHelloStream));
  rig.cpu().emit(1);
  wire.run();
  rig.service.abort_all({ErrorCode::shutting_down, "The daemon is shutting down.", {}, {}});
  wire.run();
  EXPECT_EQ(frames(wire.answer()).back()["error"]["code"], "shutting_down");
  EXPECT_EQ(rig.cpu().live(), 0U);
}

TEST_F(InferenceTest, a_reload_leaves_running_requests_alone) {
  script(rig.cpu(), Script{.manual = true});
  Wire wire(rig);
  wire.send(post(kChatBody, kHello));
  auto empty = make_settings();
  empty->apps.clear();
  rig.service.reload(empty);
  Wire refused(rig);
  refused.send(get("/v1/models"));
  EXPECT_EQ(refused.answer().status, 401);
  rig.cpu().emit(5);
  wire.run();
  EXPECT_EQ(wire.answer().status, 200);
}

// ---- routes
// --------------------------------------------------------------------------------------------------

TEST_F(InferenceTest, every_route_wants_a_key_but_the_probes) {
  std::vector<std::string> open;
  for (const api::Route& route : api::routes()) {
    std::string path(route.path);
    if (path.ends_with('/')) path += "demo";
    Wire stranger(rig);
    stranger.send(route.method == "GET" ? get(path, "") : post(path, "{}", ""));
    if (route.access == api::Access::open) {
      EXPECT_EQ(stranger.answer().status, 200) << path;
      open.push_back(path);
    } else {
      EXPECT_EQ(stranger.answer().status, 401) << path;
    }
  }
  EXPECT_EQ(open, (std::vector<std::string>{"/healthz", "/readyz"}));
}

TEST_F(InferenceTest, who_needs_no_key) {
  const auto status = [&](http::Peer peer, std::string_view path) {
    Wire wire(rig, std::move(peer));
    wire.send(get(path, ""));
    return wire.answer().status;
  };
  const http::Peer loopback{.loopback = true, .unix_uid = {}, .address = {}};
  const http::Peer user{.loopback = false, .unix_uid = 4711, .address = {}};
  const http::Peer other{.loopback = false, .unix_uid = 4712, .address = {}};
  EXPECT_EQ(status(loopback, "/v1/models"), 401);
  EXPECT_EQ(status(loopback, "/metrics"), 200);
  EXPECT_EQ(status(user, "/v1/models"), 200);
  EXPECT_EQ(status(other, "/v1/models"), 401);
  rig.settings->config.loopback_without_key = true;
  rig.settings->config.default_app = "bob";
  EXPECT_EQ(status(loopback, "/v1/models"), 200);
  EXPECT_EQ(status(other, "/v1/models"), 200);
  EXPECT_EQ(status({}, "/v1/models"), 401);
  Wire wrong(rig, loopback);
  wrong.send(get("/v1/models", "no-such-key"));
  EXPECT_EQ(wrong.answer().status, 401);  // a wrong key is never better than none
}

TEST_F(InferenceTest, models) {
  Wire wire(rig);
  wire.send(get("/v1/models"));
  const json list = json::parse(wire.answer().body);
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "demo");
  EXPECT_EQ(list["data"][0]["object"], "model");
  Wire bob(rig);
  bob.send(get("/v1/models", "key-bob"));
  EXPECT_EQ(json::parse(bob.answer().body)["data"].size(), 1U);
  Wire one(rig);
  one.send(get("/v1/models/default-demo"));
  EXPECT_EQ(json::parse(one.answer().body)["id"], "demo");
}

TEST_F(InferenceTest, metrics_have_their_names) {
  ask(kHelloStream);
  ask(R"({"n":99})");
  Wire wire(rig);
  wire.send(get("/metrics"));
  const std::string text = wire.answer().body;
  for (const char* name :
       {"flyball_requests_total{", "flyball_request_duration_seconds_bucket{",
        "flyball_time_to_first_token_seconds_count{", "flyball_time_per_output_token_seconds_count{",
        "flyball_queue_wait_seconds_count{", "flyball_router_overhead_seconds_count 1",
        "flyball_policy_eval_seconds_count 1", "flyball_requests_waiting 0", "flyball_requests_running 0",
        "flyball_kv_cache_usage_ratio{", "flyball_tokens_total{",
        "flyball_policy_decisions_total{rule=\"everything\",target=\"cpu\"} 1",
        "flyball_rejections_total{reason=\"invalid_value\"} 1", "flyball_model_loaded{",
        "flyball_model_resident_bytes{", "flyball_build_info{", "flyball_config_last_reload_success 1"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
  EXPECT_NE(text.find(R"(flyball_tokens_total{app="alice",backend="cpu",model="demo",type="completion"} 4)"),
            std::string::npos);
}

}  // namespace
}  // namespace flyball::testing
