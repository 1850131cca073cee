// Requests with an SLO on their way: refused where it is hard and out of reach, and decided again while they
// wait. Predictions come as facts of the hardware.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// Requests of alice that have half of their time left go to vulkan.
constexpr const char* kBySlo = R"(rules:
  - {id: roomy, because: b, when: {fact: app.slo.ttft, gte: 150ms}, use: cpu}
default: {because: the time is nearly over, use: vulkan}
)";

config::Slo ttft(std::chrono::milliseconds time, bool hard = false) {
  config::Slo out;
  out.ttft = time;
  out.hard = hard;
  return out;
}

auto settings_by(const char* policy, config::Slo slo) {
  auto settings = make_settings();
  settings->tree = tree_of(policy);
  settings->apps[0].slo = slo;
  return settings;
}

policy::Facts predicted(std::int64_t cpu_us, std::int64_t vulkan_us) {
  policy::Facts facts = make_hardware(true);
  facts.set("backend.cpu.expected_ttft", cpu_us, "predicted: queue 1.0 ms");
  facts.set("backend.vulkan.expected_ttft", vulkan_us, "predicted: queue 1.0 ms");
  return facts;
}

// Runs the loop until `done`, which timers of the request lead to.
template <class Done>
bool eventually(Wire& wire, Done done) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!done() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
    wire.run();
  }
  return done();
}

std::string body_of(Rig& rig, const std::string& request) {
  Wire wire(rig);
  wire.send(request);
  return wire.answer().body;
}

Answer ask(Rig& rig) {
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  return wire.answer();
}

json receipt_of(Rig& rig, const std::string& id) {
  return json::parse(body_of(rig, get("/v1/route/receipts/" + id)));
}

struct HardSlo : ::testing::Test {
  static policy::Facts missed_by(std::initializer_list<const char*> engines) {
    policy::Facts facts = predicted(900'000, 840'000);
    for (const char* id : engines) facts.set(std::string("backend.") + id + ".meets_slo", false, "predicted");
    return facts;
  }
  static auto hard() {
    auto settings = make_settings();
    settings->apps[0].slo = ttft(500ms, true);
    return settings;
  }
  // Asks until a request is let in: its client, whose answer may not have come yet.
  static std::unique_ptr<Wire> probe(Rig& rig) {
    std::unique_ptr<Wire> out;
    const auto refused = [&] {
      out = std::make_unique<Wire>(rig);
      out->send(post(kChatPath, kHello));
      return !out->received().empty() && out->answer().status == 503;
    };
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (refused() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(20ms);
    return out;
  }
};

TEST_F(HardSlo, ProbesAnIdleEngineAndLetsAllInAfterThreeSuccesses) {
  auto settings = hard();
  settings->apps[0].slo = ttft(10min, true);  // which it holds, whatever the predictions say
  Rig rig(settings, missed_by({"cpu", "vulkan"}));
  EXPECT_EQ(ask(rig).status, 503);
  const auto first = probe(rig);
  ASSERT_EQ(first->answer().status, 200);
  const json receipt = receipt_of(rig, first->answer().field("x-request-id"));
  const std::string why = receipt.value("let_through", "");
  EXPECT_TRUE(
      why.starts_with("at cpu as a probe, although no usable engine is predicted to hold the SLO: vulkan "
                      "comes nearest, with 840.0 ms expected"))
      << receipt;
  EXPECT_FALSE(receipt.contains("refused"));
  EXPECT_EQ(ask(rig).status, 200) << "the first of four";
  EXPECT_EQ(ask(rig).status, 200) << "the first of two";
  for (int i = 0; i < 8; ++i) {
    const Answer answer = ask(rig);
    ASSERT_EQ(answer.status, 200) << i;
    EXPECT_TRUE(receipt_of(rig, answer.field("x-request-id"))
                    .value("let_through", "")
                    .starts_with("at cpu as all are"));
  }
}

TEST_F(HardSlo, LoadsTheEngineOfAProbeBeforeItLetsOneIn) {
  auto settings = hard();
  settings->apps[0].slo = ttft(10min, true);
  settings->tree = tree_of(R"(rules:
  - {id: passed, because: b, use: vulkan, pick: meets_slo}
default: {because: b, use: opencl}
)");
  policy::Facts hardware = missed_by({"vulkan"});
  hardware.set("backend.opencl.available", false, "probe");
  hardware.set("backend.vulkan.loaded", false, "supervisor");
  Rig rig(settings, hardware);
  rig.fleet.hold_acquires = true;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  for (const auto until = now() + 5200ms; now() < until; std::this_thread::sleep_for(50ms)) {
    ASSERT_EQ(ask(rig).status, 503);
    ASSERT_EQ(rig.fleet.acquired.back(), "vulkan");
  }
  rig.fleet.hold_acquires = false;
  rig.vulkan();  // the load has ended
  EXPECT_EQ(probe(rig)->answer().field("x-flyball-route"), "backend=vulkan; rule=passed; model=demo");
}

TEST_F(HardSlo, ARequestWithAStricterSloOfItsOwnTakesNoProbe) {
  auto settings = hard();
  settings->apps[0].slo = ttft(10min, true);
  Rig rig(settings, missed_by({"cpu", "vulkan"}));
  EXPECT_EQ(ask(rig).status, 503);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  for (const auto until = now() + 2100ms; now() < until; std::this_thread::sleep_for(50ms)) {
    Wire strict(rig);
    strict.send(post(kChatPath, kHello, "key-alice", "x-slo-ttft-ms: 1\r\n"));
    ASSERT_EQ(strict.answer().status, 503);
  }
  EXPECT_EQ(ask(rig).status, 200);
}

TEST_F(HardSlo, AProbeThatMissesClosesTheGate) {
  auto settings = hard();
  settings->apps[0].slo = ttft(1ms, true);
  Rig rig(settings, missed_by({"cpu", "vulkan"}));
  rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  const auto late = probe(rig);
  ASSERT_EQ(late->received(), "") << "it is at the engine";
  EXPECT_EQ(ask(rig).status, 503) << "one at a time";
  std::this_thread::sleep_for(2ms);
  rig.cpu().emit(5);
  late->run();
  EXPECT_EQ(late->answer().status, 200) << "late, but an answer";
  EXPECT_EQ(ask(rig).status, 503);
}

TEST_F(HardSlo, RefusesAtOnceWhatNoUsableEngineCanHold) {
  Rig rig(hard(), missed_by({"cpu", "vulkan"}));
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 503);
  const json error = json::parse(wire.answer().body)["error"];
  EXPECT_EQ(error["code"], "slo_unattainable");
  EXPECT_EQ(
      error["message"],
      "No usable engine is predicted to hold the SLO: vulkan comes nearest, with 840.0 ms expected to the "
      "first token where app.slo.ttft is 500 ms (predicted: queue 1.0 ms).");
  EXPECT_EQ(wire.answer().field("Retry-After"), "2") << "then a probe is let in";
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=none; rule=everything; model=demo");
  EXPECT_TRUE(rig.fleet.acquired.empty());
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  EXPECT_EQ(receipt["state"], "slo_unattainable");
  EXPECT_EQ(receipt["refused"]["message"], error["message"]);
  EXPECT_EQ(rig.service.in_flight(), 0U);
}

TEST_F(HardSlo, ExplainShowsTheRefusal) {
  Rig rig(hard(), missed_by({"cpu", "vulkan"}));
  const json refused = json::parse(body_of(rig, post("/v1/route/explain", kHello)));
  EXPECT_EQ(refused["state"], "explained");
  EXPECT_EQ(refused["refused"]["code"], "slo_unattainable");
  const json held = json::parse(body_of(
      rig, post("/v1/route/explain", R"({"model":"demo","facts":{"backend.vulkan.meets_slo":true}})")));
  EXPECT_FALSE(held.contains("refused"));
}

TEST_F(HardSlo, RefusesNothingOnAnUnknownPrediction) {
  Rig rig(hard(), missed_by({"cpu"}));
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 200);
}

TEST_F(HardSlo, ASoftOneRefusesNothing) {
  auto settings = hard();
  settings->apps[0].slo.hard = false;
  Rig rig(settings, missed_by({"cpu", "vulkan"}));
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 200);
}

TEST_F(HardSlo, RefusesAWaitingRequestOnceItIsOutOfReach) {
  policy::Facts hardware = predicted(100'000, 10'000);
  hardware.set("backend.vulkan.meets_slo", false, "predicted");
  Rig rig(settings_by(kBySlo, ttft(200ms, true)), hardware);
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().status, 503);
  EXPECT_EQ(json::parse(wire.answer().body)["error"]["code"], "slo_unattainable");
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  EXPECT_EQ(receipt["redecisions"].size(), 1U);
  EXPECT_EQ(receipt["redecisions"][0]["to"], "vulkan");
}

struct DecidedAgain : ::testing::Test {
  static std::string metrics_of(Rig& rig) {
    Wire wire(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    wire.send(get("/metrics", ""));
    return wire.answer().body;
  }
};

// Eight run at cpu without a token; the ninth waits for its turn there. All of them pass their SLO.
TEST_F(DecidedAgain, ARequestInLineMovesAndThoseThatAnEngineHasBegunStay) {
  Rig rig(settings_by(kBySlo, ttft(200ms)), predicted(100'000, 10'000));
  rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  std::vector<std::unique_ptr<Wire>> begun;
  for (int i = 0; i < 8; ++i) {
    begun.push_back(std::make_unique<Wire>(rig));
    begun.back()->send(post(kChatPath, kHello));
  }
  ASSERT_EQ(rig.cpu().started.size(), 8U);
  Wire ninth(rig);
  ninth.send(post(kChatPath, kHello));
  ASSERT_TRUE(eventually(ninth, [&] { return !ninth.received().empty(); }));
  EXPECT_EQ(ninth.answer().status, 200);
  EXPECT_EQ(ninth.answer().field("x-flyball-route"), "backend=vulkan; rule=default; model=demo");
  const json receipt = receipt_of(rig, ninth.answer().field("x-request-id"));
  ASSERT_EQ(receipt["redecisions"].size(), 1U);
  const json again = receipt["redecisions"][0];
  EXPECT_EQ(again["from"], "cpu");
  EXPECT_EQ(again["to"], "vulkan");
  EXPECT_GE(again["after_ms"], 100);
  EXPECT_NE(
      again["why"].get<std::string>().find("100.0 ms expected at cpu pass the 200.0 ms to the first token"),
      std::string::npos)
      << again;
  ASSERT_EQ(receipt["attempts"].size(), 2U);
  EXPECT_EQ(receipt["attempts"][0]["outcome"], "moved");
  EXPECT_EQ(receipt["attempts"][1]["outcome"], "done");
  EXPECT_NE(metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\",to=\"vulkan\"} 1"),
            std::string::npos);
  rig.cpu().emit(5);
  begun.front()->run();
  EXPECT_EQ(rig.cpu().started.size(), 8U) << "the place in line was given up";
}

TEST_F(DecidedAgain, ARequestThatWaitsForALoadMovesAndTheLoadedEngineIsNotUsed) {
  Rig rig(settings_by(kBySlo, ttft(200ms)), predicted(100'000, 10'000));
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  ASSERT_EQ(rig.fleet.held.size(), 1U);
  rig.fleet.hold_acquires = false;
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=vulkan; rule=default; model=demo");
  rig.fleet.held.front()(&rig.cpu());
  wire.run();
  EXPECT_TRUE(rig.cpu().started.empty());
  EXPECT_EQ(rig.vulkan().started.size(), 1U);
}

TEST_F(HardSlo, AProbeThatWaitsIsDecidedAgainAndNotRefused) {
  Rig rig(settings_by("default: {because: b, use: cpu}\n", ttft(50ms, true)), missed_by({"cpu", "vulkan"}));
  rig.fleet.hold_acquires = true;
  const auto waiting = probe(rig);
  ASSERT_TRUE(eventually(*waiting, [&] {
    return DecidedAgain::metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\",to=\"cpu\"} 2") !=
           std::string::npos;
  }));
  ASSERT_EQ(waiting->received(), "");
  rig.fleet.held.front()(&rig.cpu());
  ASSERT_TRUE(eventually(*waiting, [&] { return !waiting->received().empty(); }));
  EXPECT_EQ(waiting->answer().status, 200);
}

// vulkan, which came nearest, is gone when the request is decided again.
TEST_F(HardSlo, AProbeIsNotRefusedWhereTheNearestTargetFailsWhileItWaits) {
  Rig rig(settings_by("default: {because: b, use: [cpu, vulkan]}\n", ttft(50ms, true)),
          missed_by({"cpu", "vulkan"}));
  rig.fleet.hold_acquires = true;
  const auto waiting = probe(rig);
  rig.vulkan();
  rig.fleet.disabled["vulkan"] = {ErrorCode::worker_died, "It died.", {}, {}};
  const auto decisions = [&] {
    return DecidedAgain::metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\",to=\"cpu\"} 2") !=
           std::string::npos;
  };
  ASSERT_TRUE(eventually(*waiting, [&] { return !waiting->received().empty() || decisions(); }));
  ASSERT_EQ(waiting->received(), "");
  rig.fleet.held.front()(&rig.cpu());
  ASSERT_TRUE(eventually(*waiting, [&] { return !waiting->received().empty(); }));
  EXPECT_EQ(waiting->answer().status, 200);
}

// Every answer of a request moves.
TEST_F(DecidedAgain, AllAnswersMoveTogether) {
  Rig rig(settings_by(kBySlo, ttft(200ms)), predicted(100'000, 10'000));
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, R"({"model":"demo","messages":[{"role":"user","content":"x"}],"n":3})"));
  rig.fleet.hold_acquires = false;
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(json::parse(wire.answer().body)["choices"].size(), 3U);
  EXPECT_EQ(rig.vulkan().started.size(), 3U);
}

TEST_F(DecidedAgain, AsOftenAsItGetsWorseAndInTheSamePlaceWhereTheSameEngineIsChosen) {
  Rig rig(settings_by("default: {because: b, use: cpu}\n", ttft(80ms)), predicted(75'000, 10'000));
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  const auto decided = [&] {
    return metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\",to=\"cpu\"} 3") != std::string::npos;
  };
  ASSERT_TRUE(eventually(wire, decided));
  EXPECT_EQ(rig.fleet.acquired.size(), 1U) << "it asked once";
  rig.fleet.held.front()(&rig.cpu());
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  ASSERT_EQ(receipt["redecisions"].size(), 1U) << "the latest of those that let it stay";
  EXPECT_EQ(receipt["redecisions"][0]["from"], receipt["redecisions"][0]["to"]);
  EXPECT_GE(receipt["redecisions"][0]["after_ms"], 210)
      << "the third came 100 ms after the second, and 100 ms more";
  EXPECT_EQ(receipt["attempts"].size(), 1U);
}

// The policy prefers cpu, which is not available when the request is decided again first.
TEST_F(DecidedAgain, NeverReturnsToAnEngineThatItLeft) {
  Rig rig(settings_by("default: {because: b, use: [cpu, vulkan]}\n", ttft(80ms)), predicted(75'000, 75'000));
  rig.cpu();
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  ASSERT_EQ(rig.fleet.acquired.at(0), "cpu");
  rig.fleet.disabled["cpu"] = {ErrorCode::worker_died, "It died.", {}, {}};
  ASSERT_TRUE(eventually(wire, [&] { return rig.fleet.acquired.back() == "vulkan"; }));
  rig.fleet.disabled.clear();
  ASSERT_TRUE(eventually(wire, [&] {
    return metrics_of(rig).find("flyball_redecisions_total{from=\"vulkan\"") != std::string::npos;
  }));
  EXPECT_THAT(rig.fleet.acquired, ::testing::ElementsAre("cpu", "vulkan"));
  rig.fleet.held.back()(&rig.vulkan());
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  EXPECT_EQ(receipt["redecisions"].back()["to"], "vulkan");
  EXPECT_NE(receipt.dump().find("the request left it while it waited"), std::string::npos);
}

// It moves away from cpu, and vulkan cannot be loaded.
TEST_F(DecidedAgain, AnEngineThatItLeftIsStillBetterThanAnError) {
  Rig rig(settings_by("default: {because: b, use: [cpu, vulkan]}\n", ttft(80ms)), predicted(75'000, 75'000));
  rig.cpu();
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  rig.fleet.disabled["cpu"] = {ErrorCode::worker_died, "It died.", {}, {}};
  ASSERT_TRUE(eventually(wire, [&] { return rig.fleet.acquired.back() == "vulkan"; }));
  rig.fleet.disabled.clear();
  rig.fleet.hold_acquires = false;
  rig.fleet.held.back()(std::unexpected(Error{ErrorCode::insufficient_memory, "It is too large.", {}, {}}));
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(rig.fleet.acquired, ::testing::ElementsAre("cpu", "vulkan", "cpu"));
}

TEST_F(DecidedAgain, WhenItsAnswerWouldPassTheDeadline) {
  auto settings = settings_by(R"(rules:
  - {id: roomy, because: b, when: {fact: app.slo.deadline, gte: 2s}, use: cpu}
default: {because: the time is nearly over, use: vulkan}
)",
                              {});
  settings->apps[0].slo.deadline = 2s;
  policy::Facts hardware = make_hardware(true);
  hardware.set("backend.cpu.expected_total", std::int64_t{1'900'000}, "predicted: queue 1.0 ms");
  Rig rig(settings, hardware);
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(rig.fleet.acquired.at(0), "cpu");
  rig.fleet.hold_acquires = false;
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=vulkan; rule=default; model=demo");
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  EXPECT_TRUE(receipt["redecisions"][0]["why"].get<std::string>().ends_with(
      "1900.0 ms expected at cpu pass the 2000.0 ms to the end of the answer"))
      << receipt["redecisions"];
}

TEST_F(DecidedAgain, WhenAnotherTargetBecomesFasterWithoutAnySlo) {
  policy::Facts hardware = predicted(100'000, 100'000);
  hardware.set("backend.cpu.expected_total", std::int64_t{5'000'000}, "predicted: queue 1.0 ms");
  hardware.set("backend.vulkan.expected_total", std::int64_t{1'000'000}, "predicted: queue 1.0 ms");
  Rig rig(settings_by("default: {because: b, use: [cpu, vulkan], pick: fastest}\n", {}), hardware);
  rig.vulkan();
  rig.fleet.disabled["vulkan"] = {ErrorCode::worker_died, "It died.", {}, {}};
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(rig.fleet.acquired.at(0), "cpu");
  rig.fleet.hold_acquires = false;
  rig.fleet.disabled.clear();
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=vulkan; rule=default; model=demo");
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  ASSERT_EQ(receipt["redecisions"].size(), 1U);
  EXPECT_EQ(receipt["redecisions"][0]["why"],
            "1000.0 ms to the end of the answer are expected at vulkan, and 5000.0 ms at cpu");
}

// vulkan, listed first, is picked as it is within a tenth of the fastest. It is slower, and no way leads
// back.
TEST_F(DecidedAgain, StaysWhereTheChosenTargetIsNotClearlyBetter) {
  policy::Facts hardware = predicted(75'000, 75'000);
  hardware.set("backend.cpu.expected_total", std::int64_t{1'000'000}, "predicted: queue 1.0 ms");
  hardware.set("backend.vulkan.expected_total", std::int64_t{1'050'000}, "predicted: queue 1.0 ms");
  Rig rig(settings_by("default: {because: b, use: [vulkan, cpu], pick: fastest}\n", ttft(80ms)), hardware);
  rig.vulkan();
  rig.fleet.disabled["vulkan"] = {ErrorCode::worker_died, "It died.", {}, {}};
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  ASSERT_EQ(rig.fleet.acquired.at(0), "cpu");
  rig.fleet.disabled.clear();
  ASSERT_TRUE(eventually(wire, [&] {
    return metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\"") != std::string::npos;
  }));
  EXPECT_THAT(rig.fleet.acquired, ::testing::ElementsAre("cpu"));
  rig.fleet.held.front()(&rig.cpu());
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().status, 200);
  const json receipt = receipt_of(rig, wire.answer().field("x-request-id"));
  EXPECT_EQ(receipt["redecisions"].back()["to"], "cpu");
  EXPECT_EQ(receipt["attempts"].size(), 1U);
}

// The older request moves to vulkan, where a later one of its app waits already.
TEST_F(DecidedAgain, AMovedRequestIsBeforeALaterOneOfItsApp) {
  constexpr const char* kShortToVulkan = R"(rules:
  - {id: short, because: b, when: {fact: request.max_tokens, eq: 7}, use: vulkan}
  - {id: roomy, because: b, when: {fact: app.slo.ttft, gte: 150ms}, use: cpu}
default: {because: the time is nearly over, use: vulkan}
)";
  constexpr const char* kShort =
      R"({"model":"demo","messages":[{"role":"user","content":"later"}],"max_tokens":7})";
  Rig rig(settings_by(kShortToVulkan, {}), predicted(100'000, 10'000));
  rig.vulkan().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  std::vector<std::unique_ptr<Wire>> begun;
  for (int i = 0; i < 8; ++i) {
    begun.push_back(std::make_unique<Wire>(rig));
    begun.back()->send(post(kChatPath, kShort));
  }
  ASSERT_EQ(rig.vulkan().started.size(), 8U);
  rig.fleet.hold_acquires = true;
  Wire older(rig), later(rig);
  older.send(post(kChatPath, kHello, "key-alice", "x-slo-ttft-ms: 200\r\n"));
  later.send(post(kChatPath, kShort));
  rig.fleet.hold_acquires = false;
  ASSERT_TRUE(eventually(older, [&] {
    return metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\",to=\"vulkan\"} 1") !=
           std::string::npos;
  }));
  ASSERT_EQ(rig.vulkan().started.size(), 8U);
  rig.vulkan().emit(5, 1);
  older.run();
  ASSERT_EQ(rig.vulkan().started.size(), 9U);
  EXPECT_EQ(rig.vulkan().started.back().max_tokens, 0U) << "the older one has no limit";
}

TEST_F(DecidedAgain, NotWithoutAPredictionOrAnSlo) {
  for (const bool slo : {true, false}) {
    Rig rig(settings_by(kBySlo, slo ? ttft(200ms) : config::Slo{}),
            slo ? make_hardware(true) : predicted(1'000, 1'000));
    rig.fleet.hold_acquires = true;
    Wire wire(rig);
    wire.send(post(kChatPath, kHello));
    rig.io.restart();
    EXPECT_EQ(rig.io.run_for(300ms), 0U);
    EXPECT_EQ(wire.received(), "");
  }
}

// Its header is stricter than the manifest, which has no SLO at all.
TEST_F(DecidedAgain, ByTheSloOfItsHeader) {
  Rig rig(settings_by(kBySlo, {}), predicted(100'000, 10'000));
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post(kChatPath, kHello, "key-alice", "x-slo-ttft-ms: 200\r\n"));
  EXPECT_EQ(rig.fleet.acquired.at(0), "cpu");
  rig.fleet.hold_acquires = false;
  ASSERT_TRUE(eventually(wire, [&] { return !wire.received().empty(); }));
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=vulkan; rule=default; model=demo");
}

// Those behind a waiting request are not in its way.
TEST_F(DecidedAgain, ItsOwnPlaceIsNotPartOfTheQueueBeforeIt) {
  constexpr const char* kByQueue = R"(rules:
  - {id: crowded, because: b, when: {fact: backend.cpu.queue_waiting, gte: 1}, use: vulkan}
default: {because: b, use: cpu}
)";
  Rig rig(settings_by(kByQueue, ttft(80ms)), predicted(75'000, 10'000));
  rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  std::vector<std::unique_ptr<Wire>> begun;
  for (int i = 0; i < 9; ++i) {  // the ninth waits
    begun.push_back(std::make_unique<Wire>(rig));
    begun.back()->send(post(kChatPath, kHello));
  }
  ASSERT_TRUE(eventually(*begun.back(), [&] {
    return metrics_of(rig).find("flyball_redecisions_total{from=\"cpu\",to=\"cpu\"} 3") != std::string::npos;
  })) << metrics_of(rig);
  EXPECT_TRUE(rig.vulkan().started.empty());
}

}  // namespace
}  // namespace flyball::testing
