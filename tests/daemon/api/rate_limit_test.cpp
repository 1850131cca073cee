// Limits as a client meets them: what the engine is told, status, code, header fields, and what is charged.
#include "daemon/api/limit_fields.hpp"
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct RateLimits : InferenceTest {
  config::AppLimits& alice() { return rig.settings->apps[0].limits; }
  std::string with(const std::string& more) { return R"({"model":"demo","prompt":"x")" + more + "}"; }
  Answer complete(const std::string& more = "") { return ask(with(more), "/v1/completions"); }
};

TEST_F(RateLimits, durations_are_spelled_as_clients_read_them) {
  EXPECT_EQ(api::spelled_duration(0), "0ms");
  EXPECT_EQ(api::spelled_duration(17), "17ms");
  EXPECT_EQ(api::spelled_duration(1000), "1s");
  EXPECT_EQ(api::spelled_duration(1001), "2s");
  EXPECT_EQ(api::spelled_duration(360'000), "6m0s");
  EXPECT_EQ(api::spelled_duration(7'205'000), "2h0m5s");
}

TEST_F(RateLimits, nothing_is_said_where_nothing_is_limited) {
  const auto answer = complete();
  EXPECT_EQ(answer.head.find("x-ratelimit"), std::string::npos);
  EXPECT_EQ(rig.cpu().started.at(0).total_tokens, 0U);
}

TEST_F(RateLimits, answers_say_what_is_left) {
  alice().requests_per_minute = 60;
  alice().tokens_per_minute = 6000;
  for (const char* more : {"", R"(,"stream":true)"}) {
    const auto answer = complete(more);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("x-ratelimit-limit-requests"), "60");
    EXPECT_EQ(answer.field("x-ratelimit-limit-tokens"), "6000");
    EXPECT_LE(std::stoi(answer.field("x-ratelimit-remaining-requests")), 59);
    EXPECT_NE(answer.field("x-ratelimit-reset-tokens"), "");
  }
}

TEST_F(RateLimits, one_request_too_many_is_told_when_to_come_back) {
  alice().requests_per_minute = 1;
  EXPECT_EQ(complete().status, 200);
  const auto refused = complete();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "rate_limited");
  EXPECT_EQ(json::parse(refused.body)["error"]["type"], "rate_limit_error");
  EXPECT_GE(std::stoi(refused.field("Retry-After")), 50);
  EXPECT_LE(std::stoi(refused.field("Retry-After")), 60);
  EXPECT_EQ(refused.field("x-ratelimit-remaining-requests"), "0");
}

// The budget's last tokens are given, to the last one; then there are none.
TEST_F(RateLimits, an_answer_ends_where_the_days_tokens_do) {
  alice().tokens_per_day = 30;
  script(rig.cpu(), Script{.tokens = 1000});
  const auto first = complete(R"(,"max_tokens":5)");
  EXPECT_EQ(json::parse(first.body)["usage"]["total_tokens"], 12);
  const auto second = complete(R"(,"max_tokens":11)");  // 11 and a guess of 1 fit; its prompt has 7
  EXPECT_EQ(rig.cpu().started.at(1).total_tokens, 18U) << "all that is left";
  EXPECT_EQ(json::parse(second.body)["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json::parse(second.body)["usage"]["total_tokens"], 18);
  EXPECT_EQ(second.field("x-ratelimit-limit-tokens"), "30");
  EXPECT_EQ(second.field("x-ratelimit-remaining-tokens"), "0");
  const auto third = complete(R"(,"max_tokens":1)");
  EXPECT_EQ(third.status, 429);
  EXPECT_NE(third.body.find("used 30 of its 30 tokens a day"), std::string::npos) << third.body;
  EXPECT_GE(std::stoi(third.field("Retry-After")), 1);
}

TEST_F(RateLimits, a_stream_without_max_tokens_gets_what_is_left) {
  alice().tokens_per_day = 40;
  script(rig.cpu(), Script{.tokens = 1000});
  const auto chunks = frames(ask(kHelloStream));
  EXPECT_EQ(chunks.back()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(rig.cpu().emitted, 33U);
}

// Only the engine can count a prompt: it refuses before anything is computed, and nothing is charged.
TEST_F(RateLimits, a_prompt_longer_than_thought_is_refused_uncounted) {
  alice().tokens_per_day = 7;
  const auto refused = complete(R"(,"max_tokens":1)");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "token_limit_exceeded");
  EXPECT_GT(std::stoi(refused.field("Retry-After")), 0);
  alice().tokens_per_day = 8;
  EXPECT_EQ(complete(R"(,"max_tokens":1)").status, 200) << "the eight are all there";
}

TEST_F(RateLimits, who_leaves_is_charged_for_what_was_computed) {
  alice().tokens_per_day = 50;
  script(rig.cpu(), Script{.tokens = 1000, .manual = true});
  {
    Wire wire(rig);
    wire.send(post("/v1/completions", with(R"(,"max_tokens":20,"stream":true)")));
    rig.cpu().emit(3);
    wire.run();
    wire.hang_up();
  }
  rig.cpu().script = [](const CompletionRequest&) { return Script{.tokens = 1000}; };
  EXPECT_EQ(json::parse(complete(R"(,"max_tokens":39)").body)["usage"]["total_tokens"], 40)
      << "7 and 3 are gone";
}

TEST_F(RateLimits, what_the_queue_had_no_room_for_is_not_counted) {
  alice().requests_per_minute = 2;
  rig.settings->config.max_queue = 1;
  rig.service.reload(rig.settings);
  script(rig.cpu(), Script{.manual = true});
  Wire waits(rig), refused(rig), again(rig);
  waits.send(post(kChatPath, kHello));
  refused.send(post(kChatPath, kHello));
  EXPECT_EQ(refused.answer().status, 503);
  rig.cpu().emit(1);
  again.send(post(kChatPath, kHello));
  EXPECT_EQ(again.received(), "") << "the second of two";
}

std::string head_of(std::string_view path, std::size_t bytes, std::string_view more = {}) {
  std::string out = "POST " + std::string(path) +
                    " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Authorization: Bearer key-alice\r\n";
  return out.append(more) + "Content-Length: " + std::to_string(bytes) + "\r\n\r\n";
}
std::string chunked(std::string_view path, std::string_view body) {
  std::string out = "POST " + std::string(path) +
                    " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Authorization: Bearer key-alice\r\nTransfer-Encoding: chunked\r\n\r\n";
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  return out.append(size).append(body) + "\r\n0\r\n\r\n";
}
std::string code_of(const Answer& answer) {
  return json::parse(answer.body)["error"]["code"];
}

TEST_F(RateLimits, ARequestIsRefusedBeforeItsBodyIsSent) {
  alice().requests_per_minute = 1;
  EXPECT_EQ(complete().status, 200);
  for (const char* expect : {"", "Expect: 100-continue\r\n"}) {
    Wire wire(rig);
    wire.send(head_of("/v1/completions", 4'000'000, expect));
    EXPECT_EQ(wire.received().find("100 Continue"), std::string::npos);
    const Answer refused = wire.answer();
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(code_of(refused), "rate_limited");
    EXPECT_EQ(refused.field("x-ratelimit-remaining-requests"), "0");
    EXPECT_GE(std::stoi(refused.field("Retry-After")), 50);
    EXPECT_NE(refused.field("x-request-id"), "");
    EXPECT_EQ(refused.field("Connection"), "close");
  }
}

// A client that sends all of its body before it reads: the connection takes the bytes until then.
TEST_F(RateLimits, ARefusedBodyIsReadToItsEnd) {
  alice().requests_per_minute = 1;
  EXPECT_EQ(complete().status, 200);
  Wire wire(rig);
  wire.send(head_of("/v1/completions", 4'000'000) + std::string(4'000'000, 'x'));
  EXPECT_FALSE(wire.connection().closed());
  EXPECT_EQ(wire.answer().status, 429);
}

TEST_F(RateLimits, BytesAreChargedAtTheHead) {
  alice().bytes_per_minute = 100'000;
  Wire first(rig), second(rig), never(rig);
  first.send(head_of("/v1/completions", 90'000));
  second.send(head_of("/v1/completions", 20'000));
  EXPECT_EQ(second.answer().status, 429);
  EXPECT_EQ(second.answer().field("x-ratelimit-limit-bytes"), "100000");
  EXPECT_LE(std::stoi(second.answer().field("x-ratelimit-remaining-bytes")), 10'100);
  EXPECT_LE(std::stoi(second.answer().field("Retry-After")), 6);
  never.send(head_of("/v1/completions", 100'001));
  EXPECT_EQ(never.answer().status, 413);
  EXPECT_EQ(code_of(never.answer()), "body_too_large");
  EXPECT_NE(never.answer().body.find("100000 a minute (limits.bytes_per_minute)"), std::string::npos);
}

TEST_F(RateLimits, AChunkedBodyIsChargedWithItsLength) {
  alice().bytes_per_minute = rig.settings->config.http.body_bytes;
  const Answer first = [&] {
    Wire wire(rig);
    wire.send(chunked("/v1/completions", with("")));
    return wire.answer();
  }();
  EXPECT_EQ(first.status, 200);
  EXPECT_GE(std::stoull(first.field("x-ratelimit-remaining-bytes")),
            alice().bytes_per_minute - with("").size());
  EXPECT_EQ(complete().status, 200);
  --alice().bytes_per_minute;
  Wire wire(rig);
  wire.send(chunked("/v1/completions", with("")));
  EXPECT_EQ(wire.answer().status, 413) << "it might be too long";
  EXPECT_NE(wire.answer().body.find("without Content-Length counts as http.body_bytes"), std::string::npos);
}

TEST_F(RateLimits, ABodyLongerThanTheHeldBytesIsRefused) {
  alice().held_bytes = 1 << 20;
  alice().requests_per_minute = 7;
  Wire wire(rig);
  wire.send(head_of("/v1/completions", (1 << 20) + 1));
  EXPECT_EQ(wire.answer().status, 413);
  EXPECT_EQ(wire.answer().field("x-ratelimit-limit-requests"), "7");
  EXPECT_EQ(wire.answer().field("x-ratelimit-remaining-requests"), "7");
  EXPECT_NE(wire.answer().body.find("limits.held_bytes"), std::string::npos);
}

// Bodies that are still on their way count, and those of clients that left do not.
TEST_F(RateLimits, HeldBytesAreThoseOfBodiesOnTheirWay) {
  alice().held_bytes = 1 << 20;
  alice().requests_per_minute = 7;
  Wire second(rig), third(rig);
  {
    Wire first(rig);
    first.send(head_of("/v1/completions", 1 << 20));
    second.send(head_of("/v1/completions", 1));
    EXPECT_EQ(second.answer().status, 429);
    EXPECT_EQ(second.answer().field("Retry-After"), "1");
    EXPECT_EQ(second.answer().field("x-ratelimit-remaining-requests"), "6");
    first.hang_up();
  }
  third.send(post("/v1/completions", with("")));
  EXPECT_EQ(third.answer().status, 200);
}

TEST_F(RateLimits, WhatHasABodyIsCharged) {
  alice().requests_per_minute = 5;
  const auto remaining = [](const Answer& answer) { return answer.field("x-ratelimit-remaining-requests"); };
  const auto look = [&] {
    Wire wire(rig);
    wire.send(get("/v1/models"));
    return wire.answer();
  };
  EXPECT_EQ(remaining(ask(R"({"model":"demo"})", "/v1/route/explain")), "4");
  EXPECT_EQ(remaining(look()), "") << "nothing is charged where there is no body";
  const Answer invalid = ask("{", "/v1/completions");
  EXPECT_EQ(invalid.status, 400);
  EXPECT_EQ(remaining(invalid), "3") << "it was parsed";
  EXPECT_EQ(remaining(ask(R"({"model":"none","prompt":"x"})", "/v1/completions")), "2");
  EXPECT_EQ(remaining(complete()), "1");
  EXPECT_EQ(ask("{}", "/v1/route/explain").status, 200);
  EXPECT_EQ(ask("{}", "/v1/route/explain").status, 429);
}

TEST_F(RateLimits, AKeyIsAskedForBeforeALimit) {
  alice().requests_per_minute = 1;
  EXPECT_EQ(complete().status, 200);
  Wire wire(rig);
  wire.send(post("/v1/completions", with(""), "key-wrong"));
  EXPECT_EQ(wire.answer().status, 401);
  EXPECT_EQ(wire.answer().head.find("x-ratelimit"), std::string::npos);
}

}  // namespace
}  // namespace flyball::testing
