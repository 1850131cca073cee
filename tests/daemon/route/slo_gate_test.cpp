// The gate of a hard SLO: the moment of a probe, successes that open it, and misses that close it. All in
// given time.
#include "daemon/route/slo_gate.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "daemon/route/slo_outcome.hpp"
#include "tests/daemon/route/slo_of.hpp"

namespace flyball::route {
namespace {

using namespace std::chrono_literals;
using Outcome = SloGate::Outcome;

struct Gated : ::testing::Test {
  SloGate gate;
  TimePoint now{1h};
  std::optional<TimePoint> idle_since = TimePoint{};

  auto ask(const std::string& app = "app", double ratio = 1.5) {
    return gate.ask(app, "model", idle_since, ratio, now);
  }
  bool lets_in() { return ask().has_value(); }
  std::optional<SloGate::Time> wait() {
    const auto answer = ask();
    EXPECT_FALSE(answer) << "it is let in";
    return answer ? std::nullopt : answer.error().retry_after;
  }
  void ended(const SloGate::Pass& pass, Outcome outcome) { gate.ended("app", "model", pass, outcome, now); }
  // The next request that is let in has this outcome.
  void pass_one(Outcome outcome) {
    const auto answer = ask();
    ASSERT_TRUE(answer);
    ended(*answer, outcome);
  }
  int let_in(int requests) {
    int n = 0;
    for (int i = 0; i < requests; ++i) n += lets_in() ? 1 : 0;
    return n;
  }
};

TEST_F(Gated, RefusesFirstAndProbesAnIdleEngineAfterTwoSeconds) {
  EXPECT_EQ(wait(), 2s);
  now += 1500ms;
  EXPECT_EQ(wait(), 500ms);
  now += 500ms;
  const auto probe = ask();
  ASSERT_TRUE(probe);
  EXPECT_TRUE(probe->probe);
  EXPECT_EQ(to_text(*probe), "as a probe");
}

TEST_F(Gated, ProbesTwoSecondsAfterTheEngineFellIdle) {
  EXPECT_FALSE(lets_in());
  now += 3s;
  idle_since = now - 500ms;
  EXPECT_EQ(wait(), 1500ms);
  now += 1500ms;
  EXPECT_TRUE(lets_in());
}

TEST_F(Gated, ProbesAnEngineThatIsNeverIdleAfterFiveSeconds) {
  idle_since = std::nullopt;
  EXPECT_EQ(wait(), 5s);
  now += 4999ms;
  EXPECT_EQ(wait(), 1ms);
  now += 1ms;
  EXPECT_TRUE(lets_in());
}

TEST_F(Gated, LetsOneProbeInAtATime) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  const auto probe = ask();
  ASSERT_TRUE(probe);
  now += SloGate::kMostWait - 1ms;
  EXPECT_EQ(wait(), std::nullopt) << "the probe decides";
  ended(*probe, Outcome::unknown);
  EXPECT_EQ(wait(), 2s) << "its client left, and nothing was learned";
}

TEST_F(Gated, AProbeBlocksTheNextOneForAMinuteAtMost) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  const auto slow = ask();
  ASSERT_TRUE(slow);
  now += SloGate::kMostWait;
  const auto next = ask();
  ASSERT_TRUE(next && next->probe);
  ended(*slow, Outcome::unknown);
  EXPECT_EQ(wait(), std::nullopt) << "the newer probe still runs";
  ended(*next, Outcome::held);
  EXPECT_TRUE(lets_in());
}

TEST_F(Gated, AnOpenGateRefusesRequestsThatArePredictedFarLaterThanThoseThatHeld) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  for (int i = 0; i < 3; ++i) pass_one(Outcome::held);
  EXPECT_TRUE(ask("app", 1.5 * SloGate::kBeyondSuccesses));
  int let_in = 0;
  for (int i = 0; i < 100; ++i) let_in += ask("app", 50) ? 1 : 0;
  EXPECT_EQ(let_in, 0);
  const auto later = ask("app", 1.8);
  ASSERT_TRUE(later);
  ended(*later, Outcome::held);
  EXPECT_TRUE(ask("app", 2.2)) << "a later one held";
}

TEST_F(Gated, AHalfOpenGateIsAskedInVainByLaterRequests) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  pass_one(Outcome::held);
  EXPECT_FALSE(ask("app", 50));
  EXPECT_TRUE(lets_in()) << "its turn was not taken";
}

TEST_F(Gated, ARequestThatHoldsSoFarOpensItOnceAndAMissAtItsEndClosesIt) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  auto probe = ask();
  ASSERT_TRUE(probe);
  for (int i = 0; i < 3; ++i) gate.held_so_far("app", "model", *probe, now);
  EXPECT_EQ(let_in(16), 4);
  now += 5min;
  EXPECT_EQ(let_in(16), 4) << "it still runs";
  ended(*probe, Outcome::missed);
  EXPECT_EQ(wait(), 4s);
}

// A request a second, of which each holds the SLO and none says so before its end. 1,042 were refused when
// long answers closed the gate.
TEST_F(Gated, LongAnswersOpenItAndKeepItOpen) {
  for (const auto& [answer, most] : {std::pair{60s, 150}, std::pair{300s, 400}}) {
    SCOPED_TRACE(answer.count());
    const std::string app = std::to_string(answer.count());
    std::deque<std::pair<TimePoint, SloGate::Pass>> running;
    int refused = 0;
    for (int i = 0; i < 1'200; ++i, now += 1s) {
      for (; !running.empty() && running.front().first <= now; running.pop_front())
        gate.ended(app, "model", running.front().second, Outcome::held, now);
      idle_since = running.empty() ? std::optional(now) : std::nullopt;
      if (const auto pass = ask(app)) {
        running.emplace_back(now + answer, *pass);
      } else {
        ++refused;
      }
    }
    EXPECT_LE(refused, most);
  }
}

TEST_F(Gated, EachSuccessDoublesTheShareAndTheThirdOpensIt) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  pass_one(Outcome::held);
  EXPECT_EQ(let_in(16), 4);
  pass_one(Outcome::held);
  EXPECT_EQ(let_in(16), 8);
  pass_one(Outcome::held);
  EXPECT_EQ(let_in(16), 16);
}

TEST_F(Gated, NamesTheShare) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  pass_one(Outcome::held);
  const auto fourth = ask();
  ASSERT_TRUE(fourth);
  EXPECT_EQ(to_text(*fourth), "as one in 4");
  ended(*fourth, Outcome::held);
  pass_one(Outcome::held);
  EXPECT_EQ(to_text(*ask()), "as all are after 3 requests held the SLO");
}

TEST_F(Gated, AMissClosesItAndTheWaitDoublesUpToAMinute) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  for (const SloGate::Time expected : {4s, 8s, 16s, 32s, 60s, 60s}) {
    pass_one(Outcome::missed);
    EXPECT_EQ(wait(), expected);
    now += expected;
  }
  pass_one(Outcome::held);
  for (int i = 0; i < 2; ++i) pass_one(Outcome::held);
  pass_one(Outcome::missed);
  EXPECT_EQ(wait(), 4s) << "successes bring the wait back";
}

TEST_F(Gated, AMissOfAnOpenGateClosesIt) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  for (int i = 0; i < 3; ++i) pass_one(Outcome::held);
  const auto early = ask(), late = ask();
  ASSERT_TRUE(early && late);
  ended(*early, Outcome::missed);
  EXPECT_FALSE(lets_in());
  ended(*late, Outcome::held);
  EXPECT_FALSE(lets_in()) << "it got in before the gate closed";
  ended(*late, Outcome::missed);
  EXPECT_EQ(wait(), 4s) << "and doubles nothing again";
}

TEST_F(Gated, AnOpenGateClosesWithoutSuccesses) {
  EXPECT_FALSE(lets_in());
  now += 2s;
  for (int i = 0; i < 3; ++i) pass_one(Outcome::held);
  now += SloGate::kOpenFor;
  const auto running = ask();
  ASSERT_TRUE(running);
  now += 1h;
  const auto later = ask();
  ASSERT_TRUE(later);
  EXPECT_FALSE(later->probe) << "one still runs";
  ended(*running, Outcome::unknown);
  ended(*later, Outcome::unknown);
  EXPECT_EQ(let_in(4), 1) << "a probe, as the engine has long been idle";
}

TEST_F(Gated, AppsHaveGatesOfTheirOwn) {
  EXPECT_FALSE(ask("one"));
  now += 2s;
  EXPECT_FALSE(ask("other"));
  EXPECT_TRUE(ask("one"));
  EXPECT_FALSE(ask("other"));
}

TEST_F(Gated, RemembersBoundedlyMany) {
  EXPECT_FALSE(ask("first"));
  for (std::size_t i = 0; i < SloGate::kMostGates; ++i) {
    now += 1ms;
    EXPECT_FALSE(ask("app " + std::to_string(i)));
  }
  EXPECT_EQ(gate.size(), SloGate::kMostGates);
  now += 1min;
  EXPECT_TRUE(ask("app 0"));
  EXPECT_FALSE(ask("first")) << "the one asked longest ago was forgotten";
}

// ---- the outcome ------------------------------------------------------------------------------------------

TEST(SloOutcome, IsKnownAtTheFirstTokenWhereOnlyItIsDeclared) {
  EXPECT_EQ(slo_held(slo_of(500ms), {.ttft = 400ms, .total = 400ms}), true);
  EXPECT_EQ(slo_held(slo_of(500ms), {.ttft = 501ms, .total = 501ms}), false);
  EXPECT_EQ(slo_held(slo_of(500ms, 20ms), {.ttft = 400ms, .total = 400ms}), std::nullopt);
  EXPECT_EQ(slo_held(slo_of(500ms, 20ms), {.ttft = 501ms, .total = 501ms}), false);
}

TEST(SloOutcome, IsAMissOfAnyTime) {
  const TimesTaken times{.ttft = 400ms, .tpot = 20ms, .total = 2s, .complete = true};
  EXPECT_EQ(slo_held(slo_of(400ms, 20ms, 2s), times), true);
  EXPECT_EQ(slo_held(slo_of(400ms, 19ms, 2s), times), false);
  EXPECT_EQ(slo_held(slo_of(400ms, 20ms, 1999ms), times), false);
}

TEST(SloOutcome, HoldsSoFarOnceTheFirstTokensOfAnAnswerCameFastEnough) {
  const config::Slo slo = slo_of(500ms, 20ms);
  EXPECT_FALSE(slo_held_so_far(slo, {.ttft = 400ms, .total = 450ms}));
  EXPECT_TRUE(slo_held_so_far(slo, {.ttft = 400ms, .early_tpot = 20ms, .total = 700ms}));
  EXPECT_FALSE(slo_held_so_far(slo, {.ttft = 400ms, .early_tpot = 21ms, .total = 700ms}));
  EXPECT_FALSE(slo_held_so_far(slo, {.ttft = 501ms, .early_tpot = 20ms, .total = 700ms}));
  EXPECT_FALSE(slo_held_so_far(slo_of({}, 20ms, 1h), {.ttft = 400ms, .early_tpot = 1ms, .total = 700ms}))
      << "the deadline decides";
}

// The second answer waits for the slot of the first one.
TEST(SloOutcome, TheTokensOfAnAnswerCountFromItsOwnFirstToken) {
  TimesTaken times;
  AnswerTimes first, second;
  first.received(1, 100ms, times);
  first.received(9, 190ms, times);
  first.ended(10, 190ms, times);
  EXPECT_EQ(times.tpot, 10ms);
  second.received(1, 2s, times);
  second.ended(10, 2s + 90ms, times);
  EXPECT_EQ(times.tpot, 10ms);
  EXPECT_EQ(times.early_tpot, std::nullopt);
}

TEST(SloOutcome, SixteenTokensTellTheTpot) {
  TimesTaken times;
  AnswerTimes answer;
  answer.received(1, 1s, times);
  answer.received(14, 1s + 140ms, times);
  EXPECT_EQ(times.early_tpot, std::nullopt);
  answer.received(1, 1s + 150ms, times);
  EXPECT_EQ(times.early_tpot, 10ms);
  answer.received(1, 1min, times);
  EXPECT_EQ(times.early_tpot, 10ms);
  answer.ended(17, 1min, times);
  EXPECT_GT(times.tpot, 3s);
}

TEST(SloOutcome, OfARequestWithoutATokenIsAMissOnceItsTimeIsOver) {
  EXPECT_EQ(slo_held(slo_of(500ms), {.total = 300ms}), std::nullopt) << "its client left early";
  EXPECT_EQ(slo_held(slo_of(500ms), {.total = 600ms}), false);
  EXPECT_EQ(slo_held(slo_of({}, {}, 500ms), {.total = 600ms}), false);
}

}  // namespace
}  // namespace flyball::route
