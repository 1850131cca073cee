// Reasons to decide a waiting request again, and the times of its looks.
#include "daemon/route/reconsideration.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tests/daemon/api/fakes.hpp"
#include "tests/daemon/route/slo_of.hpp"

namespace flyball::route {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr const char* kPickFirst = "default: {because: b, use: [cpu, 'vulkan:latency']}\n";
constexpr const char* kPickFastest = "default: {because: b, use: [cpu, 'vulkan:latency'], pick: fastest}\n";
constexpr const char* kPickBySlo = "default: {because: b, use: [cpu, 'vulkan:latency'], pick: meets_slo}\n";

constexpr const char* kConsiderate =
    "default: {because: b, use: [cpu, 'vulkan:latency'], pick: considerate}\n";

// A request at cpu, and predictions that the test sets.
struct Waiting {
  explicit Waiting(const char* policy, config::Slo slo = {})
      : tree(testing::tree_of(policy)), again(std::move(slo)) {}

  Waiting& predict(const std::string& backend, std::optional<microseconds> ttft,
                   std::optional<microseconds> total = {}, std::optional<microseconds> tpot = {}) {
    const auto set = [&](const char* fact, std::optional<microseconds> time) {
      const policy::FactId id = *facts.targets()->find_fact("backend." + backend + fact);
      if (time)
        facts.set(id, std::int64_t{time->count()}, "predicted: queue 1.0 ms");
      else
        facts.forget(id);
    };
    set(".expected_ttft", ttft);
    set(".expected_total", total);
    set(".expected_tpot", tpot);
    return *this;
  }
  Waiting& holds_slo(const std::string& backend, bool holds) {
    facts.set("backend." + backend + ".meets_slo", holds, "predicted");
    return *this;
  }
  Waiting& delays(const std::string& backend, microseconds others) {
    facts.set("backend." + backend + ".expected_delay_to_others", std::int64_t{others.count()}, "predicted");
    return *this;
  }
  // The time left until the deadline.
  Waiting& deadline(std::chrono::milliseconds left) {
    facts.set("app.slo.deadline", std::int64_t{left.count()}, "manifest");
    return *this;
  }
  Waiting& available(const std::string& backend, bool is) {
    facts.set("backend." + backend + ".available", is, "probe");
    return *this;
  }
  // At cpu whatever the policy would pick: a request waits where it was sent.
  Waiting& decided(microseconds waited = 0us, const std::string& at = "cpu") {
    policy::Facts only = facts;
    for (const char* id : {"cpu", "vulkan"})
      only.set("backend." + std::string(id) + ".available", at == id, "probe");
    decision = policy::decide(*tree, only);
    again.decided(outlook(waited));
    return *this;
  }
  Outlook outlook(microseconds waited) const { return outlook_of(decision, facts, waited); }
  std::string reason(microseconds waited) const { return again.reason(outlook(waited)).value_or(""); }
  std::optional<microseconds> until_look(microseconds waited) const {
    return again.until_look(outlook(waited));
  }

  // The policy's choice of now does not move the request away from cpu.
  bool stays_at_cpu() const {
    const policy::Decision now = policy::decide(*tree, facts);
    return now.target->backend == "cpu" || stays_against(now, facts, "cpu");
  }

  std::shared_ptr<const policy::Tree> tree;
  policy::Facts facts = testing::make_hardware(true);
  policy::Decision decision;
  Reconsideration again;
};

TEST(Reconsideration, ReasonIsATimeToFirstTokenThatWaitingHasPutPastTheSlo) {
  Waiting w(kPickFirst, slo_of(500ms));
  w.predict("cpu", 180'500us).decided();
  EXPECT_EQ(w.reason(319ms), "");
  EXPECT_EQ(w.reason(400ms),
            "400.0 ms waited and 180.5 ms expected at cpu pass the 500.0 ms to the first token");
}

TEST(Reconsideration, ReasonIsATokenTimeThatPassesTheSlo) {
  Waiting w(kPickFirst, slo_of({}, 50ms));
  w.predict("cpu", 100ms, {}, 45ms).decided();
  EXPECT_EQ(w.reason(9s), "") << "the time waited is no part of it";
  w.predict("cpu", 100ms, {}, 51ms);
  EXPECT_EQ(w.reason(9s), "51.0 ms expected at cpu pass the 50.0 ms for each further token");
}

TEST(Reconsideration, ReasonIsAnAnswerThatWaitingHasPutPastTheDeadline) {
  Waiting w(kPickFirst, slo_of({}, {}, 2s));
  w.predict("cpu", 100ms, 1500ms).decided();
  EXPECT_EQ(w.reason(500ms), "");
  EXPECT_EQ(w.reason(501ms),
            "501.0 ms waited and 1500.0 ms expected at cpu pass the 2000.0 ms to the end of the answer");
}

// The decision knew of the miss. A look repeats it only for news.
TEST(Reconsideration, AMissThatTheDecisionKnewIsAReasonOnceItIsClearlyWorse) {
  Waiting w(kPickFirst, slo_of(500ms, 40ms));
  w.predict("cpu", 800ms, {}, 60ms).decided();
  EXPECT_EQ(w.reason(0ms), "");
  EXPECT_EQ(w.reason(200ms), "") << "a quarter of 800 ms";
  EXPECT_NE(w.reason(201ms), "");
  w.predict("cpu", 800ms, {}, 75ms);
  EXPECT_EQ(w.reason(0ms), "");
  w.predict("cpu", 800ms, {}, 76ms);
  EXPECT_NE(w.reason(0ms), "") << "a token takes a quarter more";
}

TEST(Reconsideration, EachDecisionRaisesWhatTheNextOneIsComparedWith) {
  Waiting w(kPickFirst, slo_of(500ms));
  w.predict("cpu", 400ms).decided();
  std::vector<microseconds> at;
  for (microseconds waited = 0us; waited < 10s; waited += 50ms)
    if (w.reason(waited) != "") {
      at.push_back(waited);
      w.decided(waited);
    }
  // 400 ms and the time waited pass 500 ms, and then each time a quarter more, at least 100 ms.
  const std::vector<microseconds> expected{150ms,  300ms,  500ms,  750ms,  1050ms, 1450ms, 1950ms,
                                           2550ms, 3300ms, 4250ms, 5450ms, 6950ms, 8800ms};
  EXPECT_EQ(at, expected);
}

TEST(Reconsideration, ReasonIsAnotherTargetThatHasBecomeClearlyFaster) {
  Waiting w(kPickFastest);
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 3900ms).decided();
  w.predict("vulkan", 1s, 3200ms);
  EXPECT_EQ(w.reason(10ms), "") << "a quarter of 3.2 s";
  w.predict("vulkan", 1s, 1s);
  EXPECT_EQ(w.reason(10ms),
            "1000.0 ms to the end of the answer are expected at vulkan:latency, and 4000.0 ms at cpu");
  w.decided(10ms);
  EXPECT_EQ(w.reason(300ms), "") << "the latest decision knew that and stayed";
}

TEST(Reconsideration, ReasonIsAnotherTargetThatDelaysOthersClearlyLess) {
  Waiting w(kConsiderate);
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 1s).delays("cpu", 400ms).delays("vulkan", 400ms).decided();
  w.delays("vulkan", 330ms);
  EXPECT_EQ(w.reason(10ms), "") << "a quarter of 330 ms, and it was as much faster before";
  w.delays("vulkan", 200ms);
  EXPECT_EQ(w.reason(10ms), "vulkan:latency would delay others by 200.0 ms, cpu by 400.0 ms");
}

TEST(Reconsideration, AFasterTargetThatDelaysOthersMoreIsNoReason) {
  Waiting w(kConsiderate);
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 4s).delays("cpu", 0ms).delays("vulkan", 900ms).decided();
  w.predict("vulkan", 1s, 1s);
  EXPECT_EQ(w.reason(10ms), "");
  w.delays("vulkan", 50ms);
  EXPECT_NE(w.reason(10ms), "") << "it is about as considerate, and clearly faster";
}

TEST(Reconsideration, AConsiderateRequestLeavesATargetThatMissesTheDeadline) {
  Waiting w(kConsiderate);
  w.deadline(3s).predict("cpu", 1s, 2s).predict("vulkan", 1s, 2s).delays("cpu", 0ms).delays("vulkan", 900ms);
  w.decided();
  w.deadline(2s);
  EXPECT_EQ(w.reason(10ms), "") << "both hold it";
  w.deadline(1900ms).predict("vulkan", 1s, 1900ms);
  EXPECT_EQ(w.reason(10ms), "vulkan:latency is predicted to hold the SLO, and cpu is not");
  EXPECT_FALSE(w.stays_at_cpu());
}

TEST(Reconsideration, AConsiderateTargetThatMissesTheDeadlineIsNoReason) {
  Waiting w(kConsiderate);
  w.deadline(3s).predict("cpu", 1s, 2s).predict("vulkan", 1s, 2s);
  w.delays("cpu", 900ms).delays("vulkan", 900ms).decided();
  w.predict("vulkan", 1s, 4s).delays("vulkan", 0ms);
  EXPECT_EQ(w.reason(10ms), "");
  w.predict("vulkan", 1s, 3s);
  EXPECT_NE(w.reason(10ms), "");
}

TEST(Reconsideration, SmallDifferencesAreNoReason) {
  Waiting w(kPickFastest);
  w.predict("cpu", 20ms, 120ms).predict("vulkan", 20ms, 120ms).decided();
  w.predict("vulkan", 10ms, 20ms);
  EXPECT_EQ(w.reason(1ms), "") << "100 ms";
  w.predict("vulkan", 10ms, 19'999us);
  EXPECT_NE(w.reason(1ms), "");
}

TEST(Reconsideration, ReasonIsAnotherTargetThatHasBecomeAvailable) {
  Waiting w(kPickFastest);
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 1s).available("vulkan", false).decided();
  EXPECT_EQ(w.reason(10ms), "");
  w.available("vulkan", true);
  EXPECT_NE(w.reason(10ms), "");
}

TEST(Reconsideration, ReasonIsAnotherTargetThatHoldsTheSloWhereItsOwnDoesNot) {
  Waiting w(kPickBySlo, slo_of(500ms));
  w.predict("cpu", 100ms)
      .predict("vulkan", 100ms)
      .holds_slo("cpu", true)
      .holds_slo("vulkan", false)
      .decided();
  w.holds_slo("vulkan", true);
  EXPECT_EQ(w.reason(10ms), "") << "its own holds it, too";
  w.holds_slo("cpu", false);
  EXPECT_EQ(w.reason(10ms), "vulkan:latency is predicted to hold the SLO, and cpu is not");
  w.decided(10ms);
  EXPECT_EQ(w.reason(20ms), "");
}

TEST(Reconsideration, WhereNoTargetHoldsTheSloTheFasterOneIsAReason) {
  Waiting w(kPickBySlo, slo_of(500ms));
  w.predict("cpu", 600ms, 4s).predict("vulkan", 600ms, 4s).holds_slo("cpu", false).holds_slo("vulkan", false);
  w.decided();
  w.predict("vulkan", 600ms, 1s);
  EXPECT_NE(w.reason(10ms), "") << "on_slo_miss of a default is `fastest`";
}

TEST(Reconsideration, WithoutAnSloTheFasterOneIsAReason) {
  for (const char* policy :
       {kPickBySlo, "default: {because: b, use: [cpu, vulkan], pick: meets_slo, on_slo_miss: first}\n"}) {
    Waiting w(policy);
    w.predict("cpu", 600ms, 4s).predict("vulkan", 600ms, 4s).decided();
    w.predict("vulkan", 600ms, 1s);
    EXPECT_EQ(w.reason(10ms) == "", policy != kPickBySlo) << policy;
  }
  Waiting w(kPickBySlo);
  w.deadline(10s).predict("cpu", 600ms, 4s).predict("vulkan", 600ms, 4s).decided();
  w.predict("vulkan", 600ms, 1s);
  EXPECT_EQ(w.reason(10ms), "") << "it is unknown whether the deadline is met";
}

TEST(Reconsideration, ARuleThatTakesTheFirstTargetDoesNotCompareIt) {
  Waiting w(kPickFirst, slo_of(5s));
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 4s).decided();
  w.predict("vulkan", 1ms, 1ms);
  EXPECT_EQ(w.reason(10ms), "");
}

// Its targets come before those of the rule that decided, once one of them holds the SLO.
TEST(Reconsideration, TargetsOfARuleThatMissedTheSloAreCompared) {
  Waiting w(
      "rules:\n  - {id: in_time, because: b, use: vulkan, pick: meets_slo}\ndefault: {because: b, use: "
      "cpu}\n",
      slo_of(500ms));
  w.predict("cpu", 100ms).predict("vulkan", 900ms).holds_slo("cpu", false).holds_slo("vulkan", false);
  w.decision = policy::decide(*w.tree, w.facts);
  ASSERT_EQ(w.decision.target->backend, "cpu");
  w.again.decided(w.outlook(0ms));
  w.holds_slo("vulkan", true);
  EXPECT_EQ(w.reason(10ms), "vulkan is predicted to hold the SLO, and cpu is not");
}

// They stand in for its targets when those fail, and the policy would not choose them.
TEST(Reconsideration, TargetsOfARuleBehindTheDecidingOneAreNotCompared) {
  Waiting w(
      "rules:\n  - {id: here, because: b, use: cpu, pick: fastest, on_unavailable: next}\n"
      "default: {because: b, use: vulkan, pick: fastest}\n");
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 4s).decided();
  ASSERT_EQ(w.decision.rule->id, "here");
  ASSERT_EQ(w.decision.targets.size(), 2U);
  w.predict("vulkan", 10ms, 20ms);
  EXPECT_EQ(w.reason(10ms), "");
}

// `cpu` is listed first, and so picked where it is about as fast.
TEST(StaysAgainst, ATargetThatIsNotClearlyBetter) {
  Waiting w(kPickFastest);
  const auto stays = [&] {
    const policy::Decision again = policy::decide(*w.tree, w.facts);
    EXPECT_EQ(again.target->backend, "cpu");
    return stays_against(again, w.facts, "vulkan");
  };
  w.predict("cpu", 1s, 4300ms).predict("vulkan", 1s, 4s);
  EXPECT_TRUE(stays());
  w.predict("cpu", 1s, 3500ms);
  EXPECT_TRUE(stays()) << "faster, but not clearly";
  w.predict("cpu", 1s, 1s);
  EXPECT_FALSE(stays());
  w.predict("cpu", 1s, 4300ms).available("vulkan", false);
  EXPECT_FALSE(stays()) << "its own is not available";
}

TEST(StaysAgainst, AnotherTargetThatHoldsTheSloToo) {
  Waiting w(kPickBySlo, slo_of(500ms));
  w.predict("cpu", 100ms, 4s).predict("vulkan", 100ms, 4s).holds_slo("cpu", true).holds_slo("vulkan", true);
  policy::Decision again = policy::decide(*w.tree, w.facts);
  ASSERT_EQ(again.target->backend, "cpu");
  EXPECT_TRUE(stays_against(again, w.facts, "vulkan"));
  EXPECT_FALSE(stays_against(again, w.facts, "cpu")) << "its own is chosen";
  w.holds_slo("vulkan", false);
  again = policy::decide(*w.tree, w.facts);
  EXPECT_FALSE(stays_against(again, w.facts, "vulkan"));
}

TEST(StaysAgainst, NeitherARuleThatTakesTheFirstNorOneThatDoesNotNameItsTarget) {
  Waiting first(kPickFirst);
  first.predict("cpu", 1s, 4s).predict("vulkan", 1s, 1s);
  EXPECT_FALSE(stays_against(policy::decide(*first.tree, first.facts), first.facts, "vulkan"));
  Waiting other("default: {because: b, use: cpu, pick: fastest}\n");
  other.predict("cpu", 1s, 4s).predict("vulkan", 1s, 1s);
  EXPECT_FALSE(stays_against(policy::decide(*other.tree, other.facts), other.facts, "vulkan"));
}

TEST(Reconsideration, WithoutAnSloItsOwnTargetGettingClearlyWorseIsAReason) {
  Waiting w(kPickFastest);
  w.predict("cpu", 1s, 4s).decided();
  EXPECT_EQ(w.reason(1s), "") << "a quarter of 4 s";
  EXPECT_EQ(w.reason(1001ms),
            "1001.0 ms waited and 4000.0 ms to the end of the answer expected at cpu pass the 4000.0 ms that "
            "were expected");
  w.predict("cpu", 1s, 3s);
  EXPECT_EQ(w.reason(2s), "") << "the line moves";
}

TEST(Reconsideration, UnknownPredictionsAreNoReason) {
  Waiting w(kPickBySlo, slo_of(500ms, 50ms, 2s));
  w.decided();
  EXPECT_EQ(w.reason(1h), "");
  w.predict("cpu", 100ms);
  EXPECT_NE(w.reason(1h), "") << "it is known now";
}

TEST(Reconsideration, MovesAreBoundedAndRemembered) {
  Waiting w(kPickFastest);
  w.predict("cpu", 1s, 4s).predict("vulkan", 1s, 4s).decided();
  w.decided(1ms);
  EXPECT_TRUE(w.again.left().empty()) << "it stayed";
  w.decided(2ms, "vulkan");
  EXPECT_EQ(w.again.left(), std::vector<std::string>{"cpu"});
  for (std::size_t moves = 1; moves < Reconsideration::kMostMoves; ++moves) {
    EXPECT_TRUE(w.until_look(3ms));
    w.decided(3ms, moves % 2 == 0 ? "vulkan" : "cpu");
  }
  EXPECT_EQ(w.until_look(3ms), std::nullopt);
}

TEST(ReconsiderationLook, IsSpacedByTheTimeWaitedAndTheTimeToWait) {
  Waiting w(kPickFastest);
  w.predict("cpu", 10ms, 20ms).decided();
  EXPECT_EQ(w.until_look(0ms), 250ms);
  EXPECT_EQ(w.until_look(8s), 1s);
  EXPECT_EQ(w.until_look(10min), 5s);
  w.predict("cpu", 16s, 20s);
  EXPECT_EQ(w.until_look(0ms), 2s);
  w.predict("cpu", {}, {});
  EXPECT_EQ(w.until_look(0ms), 5s) << "nothing is predicted yet";
}

TEST(ReconsiderationLook, ComesWhenTheSloWouldBePassedIfNothingMoved) {
  Waiting w(kPickFirst, slo_of(1s));
  w.predict("cpu", 800ms).decided();
  EXPECT_EQ(w.until_look(0ms), 200ms);
  EXPECT_EQ(w.until_look(100ms), 125ms) << "an eighth of the SLO lies between two looks";
  EXPECT_EQ(w.until_look(201ms), 250ms) << "it is passed";
  Waiting late(kPickFirst, slo_of({}, {}, 1s));
  late.predict("cpu", 10ms, 800ms).decided();
  EXPECT_EQ(late.until_look(0ms), 200ms);
}

TEST(ReconsiderationLook, ComesNoMoreThanTwentyTimesASecondNearAShortSlo) {
  Waiting w(kPickFirst, slo_of(80ms));
  w.predict("cpu", 75ms).decided();
  EXPECT_EQ(w.until_look(0ms), 50ms);
}

TEST(ReconsiderationLook, GoesOnHoweverOftenTheRequestWasDecidedAgain) {
  Waiting w(kPickFirst, slo_of(500ms));
  w.predict("cpu", 400ms).decided();
  for (microseconds waited = 1s; waited < 60s; waited += 1s) w.decided(waited);
  EXPECT_EQ(w.until_look(60s), 5s);
}

TEST(ReconsiderationLook, IsNeverWithoutAnSloAndAChoiceByPrediction) {
  Waiting w(kPickFirst);
  w.predict("cpu", 1s, 4s).decided();
  EXPECT_EQ(w.until_look(0ms), std::nullopt);
}

}  // namespace
}  // namespace flyball::route
