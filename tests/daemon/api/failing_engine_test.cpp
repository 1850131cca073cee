// Engines that die, refuse or compute nonsense under a request: what the client sees of it.
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct FailingEngine : InferenceTest {};

TEST_F(FailingEngine, a_stream_survives_its_engine_at_every_token) {
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

TEST_F(FailingEngine, a_whole_answer_survives_its_engine_too) {
  die_once(rig.cpu(), 3);
  const auto body = json::parse(ask(kHello).body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "t0 t1 t2 t3 t4 t5 ");
  EXPECT_EQ(body["usage"]["completion_tokens"], 6);
}

// The parser and the constraint go on within a call, and within JSON that a call's format also begins with.
TEST_F(FailingEngine, AnswersInJsonOrCallsGoOnWhereTheirEngineDied) {
  constexpr std::string_view kAsked =
      R"({"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true,)"
      R"("response_format":{"type":"json_object"},"tools":[{"type":"function","function":{"name":"now"}}]})";
  struct Said {
    std::string text, calls;
  };
  const auto said = [](const std::vector<json>& chunks) {
    Said out;
    for (const json& chunk : chunks) {
      const json& delta = chunk.at("choices").at(0).at("delta");
      if (delta.contains("content")) out.text += delta["content"].get<std::string>();
      if (!delta.contains("tool_calls")) continue;
      const json& function = delta["tool_calls"].at(0).at("function");
      out.calls += function.value("name", "") + function.at("arguments").get<std::string>();
    }
    return out;
  };
  struct Answered {
    std::vector<std::string> texts;
    Said said;
  };
  const std::vector<Answered> answers{
      {{"{\"na", "me\": \"no", "w\", \"argum", "ents\": {\"at\": \"Os", "lo\"", "}}"},
       {"", R"(now{"at": "Oslo"})"}},
      {{"{", "\"name\": ", "\"no", "where\", ", "\"arguments\"", ": {}}"},
       {R"({"name": "nowhere", "arguments": {}})", ""}}};
  for (const auto& [texts, want] : answers)
    for (std::uint32_t at = 0; at < 6; ++at) {
      rig.cpu().script = [&, n = 0](const CompletionRequest&) mutable {
        Script one{.tokens = 6, .texts = texts};
        if (n++ == 0) one.fail_after = at;
        return one;
      };
      const Said got = said(frames(ask(kAsked)));
      EXPECT_EQ(got.text, want.text) << at;
      EXPECT_EQ(got.calls, want.calls) << at;
      const CompletionRequest& resumed = rig.cpu().started.back();
      EXPECT_EQ(resumed.resume_tokens.size(), at);
      ASSERT_TRUE(resumed.constraint);
      EXPECT_EQ(resumed.constraint->kind, Constraint::Kind::structural_tag);
    }
}

TEST_F(FailingEngine, AnEchoGoesOnWhereItsEngineDied) {
  for (std::uint32_t at = 0; at < 10; ++at) {
    die_once(rig.cpu(), at);
    Wire wire(rig);
    wire.send(post("/v1/completions", R"({"model":"demo","prompt":"hi","echo":true})"));
    const json body = json::parse(wire.answer().body);
    EXPECT_EQ(body["choices"][0]["text"], "p0 p1 p2 p3 p4 p5 p6 t0 t1 t2 t3 t4 t5 ") << at;
    EXPECT_EQ(body["usage"]["completion_tokens"], 6);
    EXPECT_EQ(rig.cpu().started.back().resume_echo, std::min(at, 7U));
    EXPECT_EQ(rig.cpu().started.back().resume_tokens.size(), std::max(at, 7U) - 7);
  }
}

TEST_F(FailingEngine, a_lost_device_moves_to_the_next_target) {
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

// A rule with on_unavailable: fail keeps its requests from the default's engines, also when one fails to
// start.
TEST_F(FailingEngine, a_rule_that_ends_the_search_has_no_alternatives) {
  auto settings = make_settings();
  settings->tree = tree_of(
      "rules:\n  - {id: r, because: b, use: cpu, on_unavailable: fail}\n"
      "default: {because: b, use: vulkan}\n");
  Rig shut(settings);
  shut.cpu();
  script(shut.vulkan(), Script{.tokens = 6});
  shut.fleet.acquire_errors["cpu"] = {{ErrorCode::insufficient_memory, "It does not fit.", {}, {}}};
  Wire wire(shut);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 503);
  EXPECT_TRUE(shut.vulkan().started.empty());
}

TEST_F(FailingEngine, an_unavailable_model_moves_to_the_next_target) {
  rig.fleet.acquire_errors["cpu"] = {{ErrorCode::model_unavailable, "It will not start.", {}, {}}};
  EXPECT_EQ(ask(kHello).field("x-flyball-route"), "backend=vulkan; rule=everything; model=demo");
  rig.fleet.acquire_errors["cpu"] = {{ErrorCode::model_unavailable, "No.", {}, {}}};
  rig.fleet.acquire_errors["vulkan"] = {{ErrorCode::insufficient_memory, "Needs 10, has 5.", {}, {}}};
  const Answer answer = ask(kHello);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "insufficient_memory");
}

// Three deaths disable an engine for everybody: one request may not cause them all.
TEST_F(FailingEngine, a_request_that_kills_engines_is_stopped) {
  Script dies;
  dies.fail_after = 0;
  script(rig.cpu(), dies);
  const Answer answer = ask(kHello);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "worker_died");
  EXPECT_EQ(rig.cpu().started.size(), 2U);
}

TEST_F(FailingEngine, an_error_in_a_stream_is_a_frame_and_then_done) {
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

TEST_F(FailingEngine, an_error_before_the_first_token_has_its_status_even_when_streaming) {
  Script fails;
  fails.fail_after = 0;
  fails.error = {ErrorCode::context_length_exceeded, "9 tokens do not fit 8.", "messages", {}};
  script(rig.cpu(), fails);
  EXPECT_EQ(ask(kHelloStream).status, 400);
}

}  // namespace
}  // namespace flyball::testing
