// Answers that begin at the processor while the GPU, which the policy has chosen, loads the model.
#include "daemon/route/head_start.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/route/possible_targets.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/route/slow_processor.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- whether it pays --------------------------------------------------------------------------------------

struct HeadStartFacts : ::testing::Test {
  policy::Facts facts = make_hardware(true);

  HeadStartFacts() {
    set("vulkan", "loaded", false);
    set("cpu", "loaded", true);
    times("vulkan", 5'200'000, 10'000, 6'200'000);  // 101 tokens
    set("vulkan", "load_time", std::int64_t{5'000});
    times("cpu", 300'000, 50'000, 5'300'000);
  }
  void set(const std::string& engine, const std::string& fact, policy::FactValue value) {
    facts.set("backend." + engine + "." + fact, std::move(value), "test");
  }
  void times(const std::string& engine, std::int64_t ttft, std::int64_t tpot, std::int64_t total) {
    set(engine, "expected_ttft", ttft);
    set(engine, "expected_tpot", tpot);
    set(engine, "expected_total", total);
  }
  std::optional<route::HeadStart> found(const std::string& on_cold = "start_elsewhere") {
    tree = tree_of("default: {because: b, use: [vulkan, cpu], on_cold: " + on_cold + "}\n");
    const policy::Decision decision = policy::decide(*tree, facts);
    return route::head_start_of(decision, facts, route::possible_targets(decision), 1000);
  }
  std::shared_ptr<const policy::Tree> tree;
};

TEST_F(HeadStartFacts, SendTheAnswerToTheLoadedEngineFirst) {
  const auto start = found();
  ASSERT_TRUE(start);
  EXPECT_EQ(start->from->backend, "cpu");
  EXPECT_EQ(start->to->backend, "vulkan");
  EXPECT_EQ(
      start->text(),
      "at cpu, where the first token should come after 300 ms, and after 5.2 s at vulkan, which loads the "
      "model first");
}

TEST_F(HeadStartFacts, AskForNothingWhereThePolicyWaits) {
  EXPECT_FALSE(found("wait"));
}

TEST_F(HeadStartFacts, KeepTheAnswerAtAnEngineThatIsLoaded) {
  set("vulkan", "loaded", true);
  EXPECT_FALSE(found());
}

TEST_F(HeadStartFacts, NeedALoadedEngineThatBeginsClearlyEarlier) {
  times("cpu", 5'150'000, 50'000, 9'000'000);
  EXPECT_FALSE(found()) << "50 ms earlier";
  times("cpu", 300'000, 50'000, 5'300'000);
  set("cpu", "loaded", false);
  EXPECT_FALSE(found());
  set("cpu", "loaded", true);
  set("cpu", "available", false);
  EXPECT_FALSE(found());
}

TEST_F(HeadStartFacts, NeedPredictionsOfBoth) {
  for (const char* fact : {"backend.cpu.expected_tpot", "backend.vulkan.expected_total",
                           "backend.vulkan.load_time", "backend.cpu.expected_ttft"}) {
    policy::Facts all = facts;
    facts.forget(*policy::find_fact(fact));
    EXPECT_FALSE(found()) << fact;
    facts = all;
  }
}

// Here the GPU computes a prompt about as slowly as it generates.
TEST_F(HeadStartFacts, WeighTheTokensThatTheChosenEngineComputesAgain) {
  times("vulkan", 14'000'000, 10'000, 15'000'000);  // nine seconds for a prompt of 1000 tokens
  times("cpu", 300'000, 50'000, 50'000'000);
  EXPECT_TRUE(found()) << "94 tokens that cost a little less to compute than to generate";
  times("vulkan", 25'000'000, 10'000, 26'000'000);
  EXPECT_FALSE(found()) << "to compute them costs twice as much";
}

TEST_F(HeadStartFacts, MoveTheRestOnlyWhereItEndsSooner) {
  const auto start = found();
  ASSERT_TRUE(start);
  EXPECT_TRUE(start->goes_on(1000, 50)) << "0.7 s against 2.5 s";
  EXPECT_FALSE(start->goes_on(1000, 97)) << "0.26 s against 0.2 s";
  EXPECT_TRUE(start->goes_on(0, 0)) << "nothing was generated";
  EXPECT_TRUE(start->goes_on(1000, 1000)) << "much longer than expected: it may go on for long";
}

// ---- and how it goes --------------------------------------------------------------------------------------

struct HeadStartTest : ::testing::Test {
  std::shared_ptr<flyball::settings::Settings> settings = make_settings();
  std::unique_ptr<Rig> rig;

  void start(const std::string& on_cold = "start_elsewhere") {
    settings->tree = tree_of("default: {because: b, use: [vulkan, cpu], on_cold: " + on_cold + "}\n");
    settings->measured = book_of_a_slow_processor(settings->config.models[0]);
    rig = std::make_unique<Rig>(settings, make_hardware(true));
    rig->fleet.memory_status.pools = {{"memory", 10'000, 0, 5'000}};
    rig->cpu().script = [](const CompletionRequest&) { return Script{.tokens = 8, .manual = true}; };
    rig->vulkan().script = [](const CompletionRequest&) { return Script{.tokens = 8}; };
    rig->fleet.stopped.insert("vulkan");
    rig->fleet.hold_acquires = true;
  }
  // Both engines are asked for, and the processor has the request.
  void begin(
      Wire& wire,
      std::string_view body =
          R"({"model":"demo","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"hello"}]})") {
    wire.send(post(kChatPath, body));
    ASSERT_TRUE(until(wire, [&] { return rig->fleet.held.size() == 2; }));
    ASSERT_THAT(rig->fleet.acquired, ElementsAre("cpu", "vulkan"));
    EXPECT_FALSE(rig->fleet.askers[1].background) << "it is the chosen engine";
    rig->fleet.held[0](&rig->cpu());
    wire.run();
    ASSERT_EQ(rig->cpu().started.size(), 1U);
  }
  void emit(Wire& wire, std::uint32_t tokens) {
    rig->cpu().emit(tokens);
    wire.run();
  }
  void vulkan_is_ready(Wire& wire) {
    rig->fleet.held[1](&rig->vulkan());
    wire.run();
  }
  Answer end(Wire& wire) {
    EXPECT_TRUE(until(wire, [&] { return wire.received().find("[DONE]") != std::string::npos; }));
    return wire.answer();
  }
  json receipt_of(const Answer& answer) {
    rig->fleet.hold_acquires = false;
    Wire wire(*rig);
    wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
    return json::parse(wire.answer().body);
  }
};

TEST_F(HeadStartTest, GoesOnAtTheChosenEngineWhereItIs) {
  start();
  Wire wire(*rig);
  begin(wire);
  emit(wire, 3);
  EXPECT_NE(wire.received().find("t2 "), std::string::npos) << "the client reads while the GPU loads";
  vulkan_is_ready(wire);
  ASSERT_EQ(rig->vulkan().started.size(), 1U);
  EXPECT_EQ(rig->vulkan().started[0].resume_tokens, (std::vector<Token>{100, 101, 102}));
  EXPECT_EQ(rig->vulkan().started[0].sampling.seed, rig->cpu().started[0].sampling.seed);
  const Answer answer = end(wire);
  EXPECT_EQ(text_of(frames(answer)), "t0 t1 t2 t3 t4 t5 t6 t7 ");
  EXPECT_EQ(rig->cpu().live(), 0U) << "it computes no more of it";
  const json receipt = receipt_of(answer);
  EXPECT_EQ(receipt["target"]["backend"], "vulkan") << "the decision is what it was";
  EXPECT_THAT(receipt.value("head_start", ""), HasSubstr("at cpu, where the first token should come after"));
  ASSERT_EQ(receipt["attempts"].size(), 2U) << receipt["attempts"];
  EXPECT_EQ(receipt["attempts"][0]["backend"], "cpu");
  EXPECT_EQ(receipt["attempts"][0]["outcome"], "moved");
  EXPECT_EQ(receipt["attempts"][1]["backend"], "vulkan");
  EXPECT_EQ(receipt["attempts"][1]["outcome"], "done");
  EXPECT_EQ(receipt["attempts"][1]["resumed_tokens"], 3);
  EXPECT_EQ(receipt["usage"]["completion_tokens"], 8);
}

TEST_F(HeadStartTest, WaitsWhereThePolicySaysSo) {
  start("wait");
  Wire wire(*rig);
  wire.send(post(kChatPath, kHello));
  ASSERT_TRUE(until(wire, [&] { return !rig->fleet.held.empty(); }));
  wire.run();
  EXPECT_THAT(rig->fleet.acquired, ElementsAre("vulkan"));
}

TEST_F(HeadStartTest, EndsWhereItBeganIfThatIsSooner) {
  start();
  Wire wire(*rig);
  begin(wire);
  emit(wire, 9);
  const Answer answer = end(wire);
  EXPECT_EQ(text_of(frames(answer)), "t0 t1 t2 t3 t4 t5 t6 t7 ");
  vulkan_is_ready(wire);
  EXPECT_TRUE(rig->vulkan().started.empty());
  const json receipt = receipt_of(answer);
  EXPECT_EQ(receipt["attempts"].size(), 1U);
  EXPECT_THAT(receipt.value("head_start", ""), HasSubstr("; it ended there first"));
}

TEST_F(HeadStartTest, StaysWhereTheChosenEngineCannotLoad) {
  start();
  Wire wire(*rig);
  begin(wire);
  emit(wire, 2);
  rig->fleet.held[1](std::unexpected(Error{ErrorCode::insufficient_memory, "There is no room.", {}, {}}));
  wire.run();
  emit(wire, 7);
  const Answer answer = end(wire);
  EXPECT_EQ(text_of(frames(answer)), "t0 t1 t2 t3 t4 t5 t6 t7 ");
  EXPECT_THAT(receipt_of(answer).value("head_start", ""), HasSubstr("; it stays there: There is no room."));
}

TEST_F(HeadStartTest, StaysWhereTheChosenEngineHasAnotherFileOrLessContext) {
  for (const bool other_file : {true, false}) {
    start();
    Wire wire(*rig);
    begin(wire);
    emit(wire, 2);
    BackendInfo& there = rig->vulkan().info_of_the_model();
    if (other_file)
      there.digest = "another";
    else
      there.context_length = rig->cpu().info().context_length - 1;
    vulkan_is_ready(wire);
    EXPECT_TRUE(rig->vulkan().started.empty());
    emit(wire, 7);
    EXPECT_EQ(text_of(frames(end(wire))), "t0 t1 t2 t3 t4 t5 t6 t7 ");
  }
}

TEST_F(HeadStartTest, WaitsForTheChosenEngineWhereTheFirstOneFails) {
  start();
  rig->cpu().script = [](const CompletionRequest&) {
    return Script{.tokens = 8,
                  .manual = true,
                  .fail_after = 2,
                  .error = {ErrorCode::device_lost, "It failed.", {}, {}}};
  };
  Wire wire(*rig);
  begin(wire);
  emit(wire, 3);
  ASSERT_EQ(rig->fleet.held.size(), 3U) << "it asks for the chosen engine again, as any answer that goes on";
  rig->fleet.held[1](&rig->vulkan());
  wire.run();
  EXPECT_TRUE(rig->vulkan().started.empty()) << "that call is answered by the next";
  rig->fleet.held[2](&rig->vulkan());
  wire.run();
  const Answer answer = end(wire);
  EXPECT_EQ(text_of(frames(answer)), "t0 t1 t2 t3 t4 t5 t6 t7 ");
  EXPECT_THAT(receipt_of(answer).value("head_start", ""), HasSubstr("; the engine that it began at failed"));
  ASSERT_EQ(rig->vulkan().started.size(), 1U);
  EXPECT_EQ(rig->vulkan().started[0].resume_tokens.size(), 2U);
}

TEST_F(HeadStartTest, GoesBackWhereTheChosenEngineRefuses) {
  start();
  rig->vulkan().script = [](const CompletionRequest&) {
    return Script{.refuse = Error{ErrorCode::overloaded, "It is full.", {}, {}}};
  };
  Wire wire(*rig);
  begin(wire);
  emit(wire, 2);
  rig->fleet.hold_acquires = false;
  rig->cpu().script = [](const CompletionRequest&) { return Script{.tokens = 8}; };
  vulkan_is_ready(wire);
  const Answer answer = end(wire);
  EXPECT_EQ(text_of(frames(answer)), "t0 t1 t2 t3 t4 t5 t6 t7 ");
  ASSERT_EQ(rig->cpu().started.size(), 2U);
  EXPECT_EQ(rig->cpu().started[1].resume_tokens.size(), 2U);
}

TEST_F(HeadStartTest, IsForOneAnswerAtATime) {
  start();
  Wire wire(*rig);
  wire.send(post(kChatPath, R"({"model":"demo","n":2,"messages":[{"role":"user","content":"hello"}]})"));
  ASSERT_TRUE(until(wire, [&] { return !rig->fleet.held.empty(); }));
  wire.run();
  for (const std::string& engine : rig->fleet.acquired) EXPECT_EQ(engine, "vulkan");
}

TEST_F(HeadStartTest, LeavesBothEnginesWithItsClient) {
  start();
  {
    Wire wire(*rig);
    begin(wire);
    emit(wire, 2);
  }
  EXPECT_TRUE(rig->run_until([&] { return rig->cpu().live() == 0; }));
  Wire wire(*rig);
  vulkan_is_ready(wire);
  EXPECT_TRUE(rig->vulkan().started.empty());
  rig->fleet.stopped.clear();
  rig->fleet.hold_acquires = false;
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 200) << "its places are free";
}

TEST_F(HeadStartTest, IsToldWhereARequestIsExplained) {
  start();
  rig->fleet.hold_acquires = false;
  Wire wire(*rig);
  wire.send(post("/v1/route/explain", kHello));
  const json explained = json::parse(wire.answer().body);
  EXPECT_THAT(explained.value("head_start", ""), HasSubstr("at cpu")) << explained;
  EXPECT_TRUE(rig->fleet.acquired.empty());
}

}  // namespace
}  // namespace flyball::testing
