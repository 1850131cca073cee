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

}  // namespace
}  // namespace flyball::testing
