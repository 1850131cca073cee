// Answers that are computed and not read: what they hold of their app's limits, and that they hold no engine.
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

constexpr std::string_view kLogprobs =
    R"({"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":20,"n":2})";
constexpr std::string_view kTwoOfBob =
    R"({"model":"small","messages":[{"role":"user","content":"Hi"}],"n":2})";
constexpr std::string_view kTwoOfBobStreamed =
    R"({"model":"small","messages":[{"role":"user","content":"Hi"}],"n":2,"stream":true})";

struct UnreadAnswer : InferenceTest {
  config::AppLimits& alice() { return rig.settings->apps[0].limits; }
  std::string code_of(const Answer& answer) { return json::parse(answer.body)["error"]["code"]; }
};

TEST_F(UnreadAnswer, AnswersAreInFlightUntilTheyHaveLeft) {
  for (const std::string_view body : {kTwoOfBob, kTwoOfBobStreamed}) {
    Wire slow(rig), next(rig), last(rig);
    slow.stop_reading();
    slow.send(post(kChatPath, body, "key-bobby"));
    EXPECT_EQ(rig.service.in_flight(), 0U) << "it is computed";
    EXPECT_EQ(rig.cpu("small").live(), 0U);
    next.send(post(kChatPath, kTwoOfBob, "key-bobby"));
    EXPECT_EQ(next.answer().status, 429);
    EXPECT_NE(next.received().find("already has 2 answers in flight"), std::string::npos);
    slow.start_reading();
    EXPECT_EQ(slow.answer().status, 200);
    last.send(post(kChatPath, kTwoOfBob, "key-bobby"));
    EXPECT_EQ(last.answer().status, 200);
  }
}

TEST_F(UnreadAnswer, AConnectionThatDiesGivesThePlacesBack) {
  for (const bool stalls : {true, false}) {
    Wire next(rig);
    {
      Wire slow(rig);
      slow.stop_reading();
      slow.send(post(kChatPath, kTwoOfBob, "key-bobby"));
      if (stalls) slow.advance(rig.settings->config.http.stalled_reader_timeout);
    }
    next.send(post(kChatPath, kTwoOfBob, "key-bobby"));
    EXPECT_EQ(next.answer().status, 200);
  }
}

// The second request waits for the first answer to leave, or it would be refused for it.
TEST_F(UnreadAnswer, APipelinedRequestFindsThePlacesOfTheOneBeforeIt) {
  const std::string request = post(kChatPath, kTwoOfBob, "key-bobby");
  Wire wire(rig);
  wire.stop_reading();
  wire.send(request + request);
  EXPECT_EQ(rig.cpu("small").started.size(), 2U);
  wire.start_reading();
  const auto answers = wire.answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[1].status, 200);
}

TEST_F(UnreadAnswer, ALongAnswerIsReadInPieces) {
  script(rig.cpu(), Script{.tokens = 300});
  Wire wire(rig);
  wire.stop_reading();
  wire.send(post(kChatPath, kLogprobs));
  EXPECT_LE(wire.connection().output().size(), 2 * http::BodySource::kPieceBytes);
  wire.start_reading();
  const Answer answer = wire.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(answer.field("Content-Length"), "");
  EXPECT_GT(answer.body.size(), 4 * http::BodySource::kPieceBytes);
  const json body = json::parse(answer.body);
  for (const json& choice : body["choices"]) EXPECT_EQ(choice["logprobs"]["content"].size(), 300U);
  EXPECT_EQ(body["usage"]["completion_tokens"], 600);
}

TEST_F(UnreadAnswer, UnreadAnswersOfAnAppAreBounded) {
  alice().held_bytes = 1 << 20;
  script(rig.cpu(), Script{.tokens = 2000});
  std::vector<std::unique_ptr<Wire>> slow;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<Wire>(rig));
    slow.back()->stop_reading();
    slow.back()->send(post(kChatPath, kLogprobs));
  }
  Wire next(rig);
  next.send(post(kChatPath, kLogprobs));
  const Answer refused = next.answer();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(code_of(refused), "rate_limited");
  EXPECT_EQ(refused.field("Retry-After"), "1");
  EXPECT_EQ(rig.cpu().live(), 0U);
  EXPECT_GE(rig.cpu().cancelled, 2U) << "both choices of the refused one";
  const Answer receipt = [&] {
    Wire wire(rig);
    wire.send(get("/v1/route/receipts/" + refused.field("x-request-id")));
    return wire.answer();
  }();
  EXPECT_EQ(json::parse(receipt.body)["state"], "rate_limited");
  for (const auto& wire : slow) wire->start_reading();
  EXPECT_EQ(ask(kLogprobs).status, 200);
}

TEST_F(UnreadAnswer, AnAnswerThatNeverFitsIsNotTriedAgain) {
  alice().held_bytes = 1 << 20;
  script(rig.cpu(), Script{.tokens = 100'000});
  const Answer answer = ask(kLogprobs);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(code_of(answer), "invalid_value");
  EXPECT_EQ(answer.field("x-should-retry"), "false");
  EXPECT_EQ(rig.cpu().live(), 0U);
  EXPECT_EQ(rig.service.in_flight(), 0U);
}

}  // namespace
}  // namespace flyball::testing
