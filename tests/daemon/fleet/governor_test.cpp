// The governor by itself: single cases.
#include "daemon/fleet/governor.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/fleet/governor_machine.hpp"

namespace flyball::fleet {
namespace {

using Kind = Governor::Action::Kind;
using std::chrono::milliseconds;

TEST(Governor, GivesWhatFitsAndTheRestWaits) {
  Machine m(100);
  m.ask(1, claim("a", 60));
  EXPECT_TRUE(m.ready.contains(1));
  EXPECT_EQ(m.governor.bytes(1), 60U);
  m.work(1);
  m.ask(2, claim("b", 50));
  EXPECT_FALSE(m.ready.contains(2));
  EXPECT_TRUE(m.refused.empty());
  m.governor.gone(1);  // it crashed
  m.ready.erase(1);
  m.decide();
  EXPECT_TRUE(m.ready.contains(2));
  EXPECT_EQ(m.governor.pools()[0].accounted, 50U);
}

TEST(Governor, SaysAtOnceWhatCanNeverFit) {
  Machine m(100);
  m.ask(1, claim("a", 90, 20));
  EXPECT_EQ(m.refused[1],
            "The model needs 110 bytes of this machine's memory; 100 bytes are available to engines.");
  auto kept = claim("kept", 30);
  kept.pinned = true;
  m.ask(2, kept);
  m.ask(3, claim("b", 80));
  EXPECT_EQ(m.refused[3],
            "The model needs 80 bytes of this machine's memory; 70 bytes are available beside the 30 bytes "
            "of pinned models.");
  EXPECT_EQ(m.governor.pools()[0].accounted, 30U);
}

TEST(Governor, RefusalsNameThePoolAndShowSizesForPeople) {
  constexpr std::uint64_t kMiB = 1U << 20U;
  Governor governor({{"machine", 96 * kMiB, true}, {"NVIDIA H200#1", 142 * kMiB, false}});
  auto on_device = claim("b", 142 * kMiB + 1);
  on_device.pool = 1;
  governor.ask(1, claim("a", 148'393'984), {});
  governor.ask(2, on_device, {});
  const auto step = governor.decide({TimePoint(), {}, {}, false});
  ASSERT_EQ(step.actions.size(), 2U);
  EXPECT_EQ(step.actions[0].error->message,
            "The model needs 142 MiB of this machine's memory; 96 MiB are available to engines.");
  EXPECT_EQ(
      step.actions[1].error->message,
      "The model needs 148897793 bytes of the memory of NVIDIA H200#1; 142 MiB are available to engines.")
      << "different sizes never look alike";
}

TEST(Governor, RespectsWhatOthersUse) {
  Machine m(100);
  m.available = 40;
  m.ask(1, claim("a", 50));
  EXPECT_EQ(m.refused[1],
            "The model needs 50 bytes of this machine's memory; 40 bytes are available or could be.");
  m.ask(2, claim("b", 40));
  EXPECT_TRUE(m.ready.contains(2));
}

// What was granted and not yet taken is not there for the next, whatever the system says is free.
TEST(Governor, DoesNotPromiseTheSameMemoryTwice) {
  Governor governor({{"the machine", 100, true}});
  const std::uint64_t available = 60;
  governor.ask(1, claim("a", 40), {});
  governor.ask(2, claim("b", 40), {});
  const auto step = governor.decide({TimePoint(), {}, {&available, 1}, false});
  ASSERT_EQ(step.actions.size(), 1U);
  EXPECT_EQ(step.actions[0].id, 1U);
}

TEST(Governor, EndsTheOldestIdleOnesAndNoMoreThanItTakes) {
  Machine m(100);
  for (Governor::Id id = 1; id <= 3; ++id) {
    m.ask(id, claim("m" + std::to_string(id), id == 3 ? 60 : 20));
    m.pass(milliseconds(1000));
    m.rest(id);
  }
  m.pass(milliseconds(10'000));
  m.ask(4, claim("new", 20));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
  m.ask(5, claim("large", 60));  // 2 would have been older, and is not enough: 3 is, by itself
  EXPECT_EQ(m.ended, (std::vector<Governor::Id>{1, 3}));
  EXPECT_TRUE(m.ready.contains(2) && m.ready.contains(4) && m.ready.contains(5));
}

TEST(Governor, PinnedOnesStay) {
  Machine m(100);
  auto a = claim("a", 40);
  a.pinned = true;
  m.ask(1, a);
  m.ask(2, claim("b", 40));
  m.pass(milliseconds(60'000));
  m.ask(3, claim("c", 60));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{2});
  EXPECT_TRUE(m.ready.contains(3));
}

TEST(Governor, WhoMayNotEvictIsToldSo) {
  Machine m(100);
  m.ask(1, claim("a", 80));
  m.pass(milliseconds(60'000));
  auto shy = claim("b", 50);
  shy.askers[0].may_evict = false;
  m.ask(2, shy);
  EXPECT_NE(m.refused[2].find("may_evict"), std::string::npos) << m.refused[2];
  EXPECT_TRUE(m.ready.contains(1));
}

MemoryClaim of(const std::string& app, std::uint64_t resident, MemoryClaim c) {
  c.askers = {{app, true, resident}};
  return c;
}

// There is room for all: it is the app that may not have more.
TEST(Governor, AnAppsEnginesStayWithinItsLimit) {
  Machine m(1000);
  m.ask(1, of("a", 100, claim("m1", 60)));
  m.ask(2, claim("others", 60));
  m.ask(3, of("a", 100, claim("m3", 30)));
  EXPECT_TRUE(m.ready.contains(1) && m.ready.contains(3)) << "both fit";
  m.pass(milliseconds(10'000));
  m.ask(4, of("a", 100, claim("m4", 20)));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1}) << "its own, longest without work, and nobody else's";
  EXPECT_TRUE(m.ready.contains(2) && m.ready.contains(3) && m.ready.contains(4));
  m.ask(5, of("a", 100, claim("m5", 101)));
  EXPECT_EQ(m.refused[5],
            "The model needs 101 bytes of this machine's memory; 100 bytes are available within the app's "
            "limits.resident.");
  m.ask(6, of("b", 100, claim("m5", 70)));
  EXPECT_TRUE(m.ready.contains(6)) << "another app's limit is its own";
}

TEST(Governor, AnAppAtItsLimitWaitsForItsOwnStreams) {
  Machine m(1000);
  m.ask(1, of("a", 100, claim("m1", 60)));
  m.work(1);
  m.ask(2, of("a", 100, claim("m2", 60)));
  m.pass(milliseconds(6000));
  EXPECT_TRUE(m.governor.held(1));
  EXPECT_FALSE(m.ready.contains(2));
  EXPECT_TRUE(m.ended.empty() && m.refused.empty());
  m.rest(1);
  m.decide();
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
  EXPECT_TRUE(m.ready.contains(2));
}

// A cache may have what the app has left, and no more.
TEST(Governor, AnAppsLimitBoundsTheCache) {
  Machine m(1000);
  m.ask(1, of("a", 100, claim("m1", 60, 1, 200)));
  EXPECT_EQ(m.kv[1], 40U);
  EXPECT_EQ(m.governor.bytes(1), 100U);
}

// What one of those who wait may, is done; which one it is loaded for holds it.
TEST(Governor, ALoadIsForTheAppThatMayHaveIt) {
  Machine m(1000);
  m.ask(1, of("x", 100, claim("held", 90)));
  auto wanted = of("x", 100, claim("wanted", 30));  // the first, the larger limit, and no room in it
  wanted.askers.push_back({"y", false, 50});
  m.work(1);
  m.ask(2, wanted);
  EXPECT_TRUE(m.ready.contains(2)) << "for y";
  m.ask(3, of("y", 50, claim("more", 30)));
  EXPECT_FALSE(m.ready.contains(3)) << "it has 30 of 50";
  m.governor.gone(2);
  m.ready.erase(2);
  m.decide();
  EXPECT_TRUE(m.ready.contains(3));
}

TEST(Governor, WhoComesToWaitForALoadMayHaveMore) {
  Machine m(1000);
  m.ask(1, of("x", 100, claim("held", 90)));
  m.work(1);
  m.ask(2, of("x", 100, claim("wanted", 30)));
  EXPECT_FALSE(m.ready.contains(2));
  m.governor.join(2, {"y", false, 0});
  m.decide();
  EXPECT_TRUE(m.ready.contains(2));
}

// One that only its app's limit stops has no say over memory that is free, and nobody's engine ends for it.
TEST(Governor, WhoWaitsForItsAppStandsInNobodysWay) {
  Governor governor({{"the machine", 100, true}});
  governor.ask(1, of("x", 50, claim("a", 40)), {});
  ASSERT_EQ(governor.decide({TimePoint(), {}, {}, false}).actions.size(), 1U);  // it loads
  governor.ask(2, of("x", 50, claim("b", 30)), {});
  auto shy = claim("c", 40);
  shy.askers[0].may_evict = false;
  governor.ask(3, shy, {});
  const auto step = governor.decide({TimePoint(), {}, {}, false});
  ASSERT_EQ(step.actions.size(), 1U);
  EXPECT_EQ(step.actions[0].kind, Kind::load);
  EXPECT_EQ(step.actions[0].id, 3U);
}

TEST(Governor, WhoWaitsForItsAppKeepsNoIdleEngineForOthers) {
  Machine m(100);
  m.ask(1, of("x", 40, claim("a", 40)));
  m.work(1);
  m.ask(2, claim("idle", 40));
  m.pass(milliseconds(1000));
  m.ask(3, of("x", 40, claim("b", 30)));  // a has not had its turn
  m.ask(4, claim("c", 50));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{2});
  EXPECT_TRUE(m.ready.contains(4));
  EXPECT_FALSE(m.ready.contains(3));
}

TEST(Governor, NoEngineEndsForALimitThatItsEndDoesNotMeet) {
  Governor governor({{"the machine", 1000, true}});
  governor.ask(1, of("x", 100, claim("idle", 40)), {});
  governor.decide({TimePoint(), {}, {}, false});
  governor.ready(1, of("x", 100, claim("idle", 40)), 40, {});
  governor.ask(2, of("x", 100, claim("loads", 60)), {});
  const TimePoint later = TimePoint() + milliseconds(60'000);
  const Governor::Use idle[] = {{1, TimePoint()}};
  ASSERT_EQ(governor.decide({later, idle, {}, false}).actions.size(), 1U);
  governor.ask(3, of("x", 100, claim("third", 50)), later);
  EXPECT_TRUE(governor.decide({later, idle, {}, false}).actions.empty()) << "60 still load: 110";
}

// The memory is there, and promised to one that waits for its group: it is not too little, it is not its
// turn.
TEST(Governor, WhatOthersArePromisedComesBack) {
  Machine m(100);
  auto a = claim("a", 30);
  a.group = "g";
  m.ask(1, a);
  m.work(1);
  auto b = claim("b", 60);
  b.group = "g";
  m.ask(2, b);
  m.ask(3, claim("c", 50));
  EXPECT_TRUE(m.refused.empty()) << m.refused.begin()->second;
  m.pass(milliseconds(6000));
  m.rest(1);
  m.decide();
  EXPECT_TRUE(m.ready.contains(2));
}

// A card of a pool of several.
TEST(Governor, AnEngineMayNotHaveMoreThanItsOwnDevices) {
  Machine m(100);
  m.ask(1, claim("idle", 60));
  m.pass(milliseconds(60'000));
  auto c = claim("large", 50);
  c.most = 40;
  m.ask(2, c);
  EXPECT_EQ(m.refused[2],
            "The model needs 50 bytes of this machine's memory; 40 bytes are available to engines.");
  EXPECT_TRUE(m.ended.empty());
  auto cache = claim("cache", 10, 1, 100);
  cache.most = 14;
  m.ask(3, cache);
  EXPECT_EQ(m.kv[3], 1U) << "a quarter of the 4 that are left of it";
}

TEST(Governor, WhatLoadsIsNotFree) {
  Governor governor({{"the machine", 140, true}});
  governor.ask(1, claim("a", 80), {});
  const std::uint64_t available = 100;
  governor.decide({TimePoint(), {}, {&available, 1}, false});
  EXPECT_EQ(governor.free(0, 100), 20U);
  EXPECT_EQ(governor.free(0, Governor::kUnknown), 60U);
  governor.ready(1, claim("a", 80), 80, {});
  EXPECT_EQ(governor.free(0, 20), 20U);
}

// Beside what others use: the system counts as available what an engine was promised and has not written yet.
TEST(Governor, WhatAnEngineWillStillTakeIsNotFree) {
  Governor governor({{"the machine", 100, true}});
  governor.ready(1, claim("a", 60), 60, {});
  EXPECT_EQ(governor.free(0, 30), 30U) << "nothing else is known of it";
  governor.touched(1, 45);
  EXPECT_EQ(governor.free(0, 30), 15U);
  governor.touched(1, 70);
  EXPECT_EQ(governor.free(0, 30), 30U) << "it holds more than it said";
  governor.ask(2, claim("b", 20), {});
  const std::uint64_t available = 30;
  ASSERT_EQ(governor.decide({TimePoint(), {}, {&available, 1}, false}).actions.size(), 1U);
  EXPECT_EQ(governor.free(0, 30), 10U);
  governor.touched(2, 15);  // while it loads
  EXPECT_EQ(governor.free(0, 15), 10U);
}

TEST(Governor, AnEngineAtWorkHasItsTurnAndIsNotCut) {
  Machine m(100);
  m.ask(1, claim("a", 80));
  m.work(1);
  m.ask(2, claim("b", 80));
  EXPECT_FALSE(m.governor.held(1));
  ASSERT_TRUE(m.look_again);
  EXPECT_EQ(*m.look_again - m.now, milliseconds(5000));
  m.pass(milliseconds(4999));
  EXPECT_FALSE(m.governor.held(1));
  m.pass(milliseconds(1));
  EXPECT_TRUE(m.governor.held(1));
  m.pass(milliseconds(60'000));
  EXPECT_TRUE(m.ended.empty());
  m.rest(1);
  m.decide();
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
  EXPECT_TRUE(m.ready.contains(2));
}

TEST(Governor, WhoAsksOneThingAfterTheOtherIsNotDoneBetweenTwo) {
  Machine m(100);
  m.ask(1, claim("a", 80));
  m.work(1);
  m.pass(milliseconds(100));
  m.rest(1);
  m.ask(2, claim("b", 80));
  m.pass(milliseconds(199));
  EXPECT_TRUE(m.ended.empty());
  m.pass(milliseconds(1));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
}

TEST(Governor, WhatIsHeldIsReleasedWhenNobodyWaitsAnyMore) {
  Machine m(100);
  m.ask(1, claim("a", 80));
  m.work(1);
  m.ask(2, claim("b", 80));
  m.pass(milliseconds(5000));
  EXPECT_TRUE(m.governor.held(1));
  m.governor.gone(2);
  m.decide();
  EXPECT_FALSE(m.governor.held(1));
}

TEST(Governor, WhoWaitsIsNotPassedByThoseWhoWouldTakeItsRoom) {
  Machine m(100);
  m.ask(1, claim("a", 60));
  m.work(1);
  m.ask(2, claim("large", 90));
  m.ask(3, claim("small", 20));  // there is room now, but not beside the large one
  m.ask(4, claim("tiny", 10));   // there is, and small came first
  EXPECT_TRUE(m.refused.empty()) << "it is not too large, it is not its turn";
  EXPECT_FALSE(m.ready.contains(3) || m.ready.contains(4));
  m.pass(milliseconds(5000));
  m.rest(1);
  m.decide();
  EXPECT_TRUE(m.ready.contains(2));
  EXPECT_FALSE(m.ready.contains(3));
  m.pass(milliseconds(1000));
  EXPECT_TRUE(m.ready.contains(3) && m.ready.contains(4));
  EXPECT_EQ(m.ended, (std::vector<Governor::Id>{1, 2}));
}

TEST(Governor, NobodyWaitsForEver) {
  Machine m(100);
  m.ask(1, claim("a", 80));
  m.work(1);
  m.ask(2, claim("b", 80));
  m.pass(milliseconds(300'000));
  EXPECT_TRUE(m.refused.contains(2));
  EXPECT_FALSE(m.governor.held(1));
}

TEST(Governor, OneThatCannotEndIsWaitedForNoLongerThanThat) {
  Governor governor({{"the machine", 100, true}});
  governor.ready(1, claim("a", 80), 80, {});
  governor.ask(2, claim("b", 80), {});
  const Governor::Use idle[] = {{1, TimePoint()}};
  TimePoint now = TimePoint() + milliseconds(6000);
  ASSERT_EQ(governor.decide({now, idle, {}, false}).actions[0].kind, Kind::end);
  now += milliseconds(9999);
  EXPECT_TRUE(governor.decide({now, {}, {}, false}).actions.empty());
  now += milliseconds(1);
  const auto step = governor.decide({now, {}, {}, false});
  ASSERT_EQ(step.actions.size(), 1U);
  EXPECT_EQ(step.actions[0].kind, Kind::refuse);
  EXPECT_EQ(governor.pools()[0].accounted, 80U) << "what does not end holds its memory";
  governor.gone(1);
  EXPECT_EQ(governor.pools()[0].accounted, 0U);
}

// After a reload an engine has until its deadline to end its answers: who needs its memory waits as long.
TEST(Governor, OneThatIsGivenTimeToEndIsWaitedFor) {
  Machine m(100);
  m.ask(1, claim("a", 90));
  m.work(1);
  m.governor.ending(1, m.now, m.now + std::chrono::seconds(30));
  m.ready.erase(1);
  m.ask(2, claim("a, changed", 90));
  for (int s = 0; s < 29; ++s) m.pass(std::chrono::seconds(1));
  EXPECT_TRUE(m.refused.empty()) << m.refused.begin()->second;
  m.governor.gone(1);
  m.decide();
  EXPECT_TRUE(m.ready.contains(2));
}

TEST(Governor, OneCouldHaveAllButWhatIsPinned) {
  Machine m(100);
  auto kept = claim("kept", 30);
  kept.pinned = true;
  m.ask(1, kept);
  m.ask(2, claim("b", 60));
  EXPECT_EQ(m.governor.most_for_one(0), 70U);
}

TEST(Governor, OfAGroupOneModelIsLoaded) {
  Machine m(100);
  auto a = claim("a", 10), b = claim("b", 10), same = claim("a", 10);
  a.group = b.group = same.group = "vision";
  m.ask(1, a);
  m.ask(2, same);  // on another engine
  m.ask(3, claim("other", 10));
  EXPECT_EQ(m.ready.size(), 3U);
  m.work(1);
  m.ask(4, b);
  m.pass(milliseconds(5000));
  EXPECT_TRUE(m.governor.held(1));
  EXPECT_FALSE(m.ready.contains(4));
  m.rest(1);
  m.pass(milliseconds(1));
  EXPECT_TRUE(m.ready.contains(4));
  EXPECT_FALSE(m.ready.contains(1) || m.ready.contains(2));
  EXPECT_TRUE(m.ready.contains(3));
  auto c = claim("c", 10);
  c.group = "vision";
  m.governor.keep(4, true, {});
  m.ask(5, c);
  EXPECT_NE(m.refused[5].find("vision"), std::string::npos);
}

TEST(Governor, KvGrowsWithTheRoomAndIsNeverLessThanOneSequences) {
  Machine m(1000);
  m.ask(1, claim("a", 200, 10, 400));
  EXPECT_EQ(m.kv[1], 200U);  // a quarter of what is left
  m.ask(2, claim("b", 580, 20, 400));
  EXPECT_EQ(m.kv[2], 20U);
  EXPECT_EQ(m.governor.pools()[0].accounted, 1000U);
}

TEST(Governor, UnloadsWhatHasBeenIdle) {
  Machine m(100);
  auto a = claim("a", 10);
  a.keep = milliseconds(1000);
  m.ask(1, a);
  m.pass(milliseconds(999));
  EXPECT_TRUE(m.ready.contains(1));
  ASSERT_TRUE(m.look_again);
  EXPECT_EQ(*m.look_again - m.now, milliseconds(1));
  m.pass(milliseconds(1));
  EXPECT_FALSE(m.ready.contains(1));
  EXPECT_EQ(m.governor.counters().idle_unloads, 1U);
}

TEST(Governor, OneCouldHaveWhatAPinnedOneThatEndsGivesBack) {
  Machine m(100);
  auto kept = claim("kept", 30);
  kept.pinned = true;
  m.ask(1, kept);
  m.governor.ending(1, m.now, m.now + std::chrono::seconds(30));
  EXPECT_EQ(m.governor.most_for_one(0), 100U);
}

TEST(Governor, UnloadsAnIdleEngineOnTheOperatorsWordAlsoAPinnedOne) {
  Machine m(100);
  auto pinned = claim("pinned", 10);
  pinned.pinned = true;
  m.ask(1, pinned);
  m.ask(2, claim("other", 10));
  m.governor.unload(1);
  EXPECT_TRUE(m.governor.is_unwanted(1));
  m.decide();
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
  EXPECT_FALSE(m.governor.is_unwanted(1)) << "the next process is another one";
  EXPECT_EQ(m.governor.counters().unloads, 1U);
  EXPECT_EQ(m.governor.counters().evictions, 0U);
}

TEST(Governor, UnloadsAnEngineAtWorkWhenItsAnswersHaveEnded) {
  Machine m(100);
  for (const bool is_pinned : {false, true}) {
    const Governor::Id id = is_pinned ? 2 : 1;
    auto a = claim("a", 10);
    a.pinned = is_pinned;
    m.ask(id, a);
    m.work(id);
    m.governor.unload(id);
    m.decide();
    m.pass(milliseconds(600'000));
    EXPECT_TRUE(m.ready.contains(id)) << "a stream is never cut";
    EXPECT_TRUE(m.governor.held(id)) << "new requests wait";
    m.rest(id);
    m.decide();
    EXPECT_FALSE(m.ready.contains(id));
  }
}

// The memory of an engine that is unloaded comes free soon, so that no other engine ends for the next load.
TEST(Governor, EvictsNobodyWhileAnUnloadedEngineGivesItsMemoryBack) {
  Machine m(100);
  m.ask(1, claim("unloaded", 50));
  m.ask(2, claim("idle", 50));
  m.work(1);
  m.governor.unload(1);
  m.decide();
  m.pass(milliseconds(60'000));
  m.ask(3, claim("new", 50));
  EXPECT_TRUE(m.ended.empty());
  m.rest(1);
  m.decide();
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
  EXPECT_TRUE(m.ready.contains(3) && m.ready.contains(2));
}

// A pinned engine keeps its memory for good, but not once the operator unloads it.
TEST(Governor, ALoadWaitsForAPinnedEngineThatIsUnloaded) {
  for (const char* group : {"", "g"}) {
    Machine m(100);
    auto pinned = claim("pinned", 80);
    pinned.pinned = true;
    pinned.group = group;
    m.ask(1, pinned);
    m.work(1);
    m.governor.unload(1);
    auto other = claim("other", 50);
    other.group = group;
    m.ask(2, other);
    EXPECT_TRUE(m.refused.empty()) << m.refused[2];
    m.rest(1);
    m.decide();
    EXPECT_TRUE(m.ready.contains(2));
  }
}

TEST(Governor, UnloadsAnEngineThatLoadsOnceItIsReady) {
  Machine m(100);
  m.governor.unload(1);  // it has not even asked
  m.ask(1, claim("a", 10));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
}

TEST(Governor, EndsIdleEnginesOneAfterTheOtherWhileTheMachineIsShort) {
  Machine m(100);
  for (Governor::Id id = 1; id <= 3; ++id) m.ask(id, claim("m" + std::to_string(id), 10));
  m.work(3);
  m.pressure = true;
  m.pass(milliseconds(10'000));
  EXPECT_EQ(m.ended.size(), 1U);
  m.pass(milliseconds(9'999));
  EXPECT_EQ(m.ended.size(), 1U);
  m.pass(milliseconds(1));
  EXPECT_EQ(m.ended.size(), 2U);
  m.pass(milliseconds(10'000));
  EXPECT_TRUE(m.ready.contains(3)) << "it works";
}

TEST(Governor, APoolThatHoldsMoreThanWasSaidIsRelieved) {
  Machine m(100);
  m.ask(1, claim("a", 40));
  m.ask(2, claim("b", 40));
  m.work(2);
  m.governor.gone(2);
  m.governor.ready(2, claim("b", 40), 70, m.now);
  m.decide();
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{1});
}

MemoryClaim spare(const std::string& model, std::uint64_t weights) {
  MemoryClaim c = claim(model, weights);
  c.spare = true;
  return c;
}

TEST(Governor, ASpareOneHasWhatIsFreeAndNobodyEndsForIt) {
  Machine m(100);
  m.ask(1, claim("idle", 60));
  m.pass(milliseconds(60'000));
  m.ask(2, spare("measured", 41));
  EXPECT_EQ(
      m.refused[2],
      "The model needs 41 bytes of this machine's memory; 40 bytes are available, and nobody ends for it.");
  m.ask(3, spare("measured", 40));
  EXPECT_TRUE(m.ready.contains(3));
  EXPECT_TRUE(m.ended.empty());
  EXPECT_EQ(m.governor.pools()[0].accounted, 100U);
  EXPECT_EQ(m.governor.pools()[0].engines, 1U) << "it is no engine";
  EXPECT_EQ(m.governor.counters().loads, 1U);
  EXPECT_EQ(m.governor.counters().refusals, 0U);
}

// What is beside it now ends one day; what is pinned, and the pool, stay.
TEST(Governor, ARefusalForGoodIsOfTheSizeAlone) {
  Machine m(100);
  MemoryClaim pinned = claim("pinned", 40);
  pinned.pinned = true;
  m.ask(1, pinned);
  m.ask(2, claim("idle", 30));
  m.ask(3, spare("not now", 60));
  m.ask(4, spare("never", 61));
  EXPECT_TRUE(m.refused.contains(3) && m.refused.contains(4));
  m.ask(5, claim("an engine", 61));
  EXPECT_EQ(m.refused_for_good, (std::vector<Governor::Id>{4, 5}));
  EXPECT_EQ(m.governor.most_for_one(0), 60U);
}

TEST(Governor, ASpareOneEndsAsSoonAsAnybodyAsks) {
  Machine m(100);
  m.ask(1, claim("idle", 20));
  m.ask(2, spare("measured", 40));
  m.pass(milliseconds(60'000));
  m.ask(3, claim("wanted", 80));
  EXPECT_EQ(m.ended, std::vector<Governor::Id>{2}) << "and the idle engine stays: it would not have to end";
  EXPECT_TRUE(m.ready.contains(1) && m.ready.contains(3));
  EXPECT_EQ(m.governor.counters().evictions, 0U);
  m.ask(4, spare("measured", 0));
  m.ask(5, claim("in what is free", 0));
  EXPECT_EQ(m.ended, (std::vector<Governor::Id>{2, 4})) << "whatever there is: nothing is idle any more";
}

// Its memory is promised to who waits, and to nobody before its process is gone.
TEST(Governor, ASpareOneHoldsItsMemoryUntilItIsGone) {
  Governor governor({{"the machine", 100, true}});
  governor.ask(1, spare("measured", 60), {});
  ASSERT_EQ(governor.decide({TimePoint(), {}, {}, false}).actions.at(0).kind, Kind::load);
  governor.ask(2, claim("wanted", 60), {});
  const auto step = governor.decide({TimePoint(), {}, {}, false});
  ASSERT_EQ(step.actions.size(), 1U) << "it still loads, and ends all the same";
  EXPECT_EQ(step.actions[0].kind, Kind::end);
  EXPECT_EQ(step.actions[0].id, 1U);
  governor.ready(1, spare("measured", 60), 60, {});  // it was on its way
  EXPECT_TRUE(governor.decide({TimePoint(), {}, {}, false}).actions.empty());
  governor.gone(1);
  EXPECT_EQ(governor.decide({TimePoint(), {}, {}, false}).actions.at(0).id, 2U);
}

TEST(Governor, ASpareOneGetsNothingWhileOthersWait) {
  Machine m(100);
  m.ask(1, claim("a", 60));
  m.work(1);
  m.ask(2, claim("b", 60));
  m.ask(3, spare("measured", 10));
  EXPECT_EQ(m.refused[3],
            "The model needs 10 bytes of this machine's memory; 40 bytes are available, and others wait for "
            "memory.");
  auto grouped = spare("c", 1);
  grouped.group = "g";
  Machine other(100);
  auto loaded = claim("d", 10);
  loaded.group = "g";
  other.ask(1, loaded);
  other.ask(2, grouped);
  EXPECT_EQ(other.refused[2],
            "The model needs 1 byte of this machine's memory; 90 bytes are available, and another model of "
            "its group is loaded.");
}

TEST(Governor, ASpareOneEndsFirstWhenMemoryIsShort) {
  Machine m(100);
  m.ask(1, claim("idle", 20));
  m.ask(2, spare("measured", 40));
  m.pressure = true;
  m.decide();
  EXPECT_EQ(m.ended.front(), 2U);
  m.ask(3, spare("measured again", 40));
  EXPECT_EQ(m.refused[3],
            "The model needs 40 bytes of this machine's memory; 100 bytes are available, and the machine is "
            "short of memory.");
}

// A request is decided by what there would be for it, and it is it that ends a spare one.
TEST(Governor, WhatIsLentIsFreeForEngines) {
  Governor governor({{"the machine", 100, true}});
  governor.ask(1, spare("measured", 60), {});
  ASSERT_EQ(governor.decide({TimePoint(), {}, {}, false}).actions.at(0).kind, Kind::load);
  EXPECT_EQ(governor.free(0, 100), 40U);
  EXPECT_EQ(governor.free_for_engines(0, 100), 100U) << "it has taken nothing yet";
  governor.ready(1, {}, 60, {});
  EXPECT_EQ(governor.free(0, 30), 30U);
  EXPECT_EQ(governor.free_for_engines(0, 30), 90U) << "what it holds comes back";
  EXPECT_EQ(governor.free_for_engines(0, Governor::kUnknown), 100U);
}

TEST(Governor, ASpareEngineIsAnOrdinaryOneFromItsFirstRequestOn) {
  Governor governor({{"the machine", 100, true}});
  auto mine = spare("a", 60);
  mine.askers = {{.app = "alice", .may_evict = false, .background = true}};
  governor.ask(1, mine, {});
  ASSERT_EQ(governor.decide({TimePoint(), {}, {}, false}).actions.at(0).kind, Kind::load);
  governor.join(1, {.app = "bob", .background = true});
  EXPECT_EQ(governor.pools()[0].engines, 0U) << "no request";
  governor.join(1, {.app = "bob"});
  EXPECT_EQ(governor.pools()[0].engines, 1U);
  EXPECT_EQ(governor.counters().loads, 1U);
  governor.ask(2, claim("b", 60), {});
  EXPECT_TRUE(governor.decide({TimePoint(), {}, {}, false}).actions.empty()) << "it loads on";
}

TEST(Governor, ASpareOneThatARequestJoinsWaitsLikeIt) {
  Machine m(100);
  m.ask(1, claim("a", 60));
  m.work(1);
  m.governor.ask(2, spare("b", 60), m.now);
  m.governor.join(2, {.app = "bob"});
  m.decide();
  EXPECT_TRUE(m.governor.waits(2));
  EXPECT_FALSE(m.refused.contains(2));
}

TEST(Governor, ASpareOneWaitsForNoShareOfItsApp) {
  Machine m(100);
  auto first = claim("a", 40);
  first.askers = {{.app = "alice", .may_evict = true, .resident = 60}};
  m.ask(1, first);
  m.work(1);
  auto second = spare("b", 40);
  second.askers = {{.app = "alice", .may_evict = false, .resident = 60, .background = true}};
  m.ask(2, second);
  EXPECT_EQ(m.refused[2],
            "The model needs 40 bytes of this machine's memory; 20 bytes are available within the app's "
            "limits.resident.");
}

// A load that failed for want of memory although it was granted: which engine ends for its next try.
class MakesRoom : public testing::Test {
 protected:
  Governor governor{{{"the machine", 100, true}, {"a device", 100, false}}};
  std::vector<Governor::Use> uses;

  static TimePoint at(int second) { return TimePoint(std::chrono::seconds(second)); }
  void idle(Governor::Id id, int since, std::size_t pool = 0, bool pinned = false) {
    auto c = claim("m" + std::to_string(id), 10);
    c.pool = pool;
    c.pinned = pinned;
    governor.ready(id, c, 10, at(0));
    uses.push_back({id, at(since)});
  }
  std::optional<Governor::Id> victim(int idle_since, std::size_t pool = 0, bool may_evict = true) {
    auto c = claim("new", 10);
    c.pool = pool;
    c.askers = {{.app = "app", .may_evict = may_evict}};
    const auto action = governor.make_room(c, at(idle_since), uses, at(20));
    if (!action) return std::nullopt;
    EXPECT_EQ(action->kind, Kind::end);
    EXPECT_EQ(action->why, "model new needs its memory");
    return action->id;
  }
};

TEST_F(MakesRoom, ByTheEndOfTheEngineIdleLongest) {
  EXPECT_FALSE(victim(9));
  idle(1, 3);
  idle(2, 1);
  idle(3, 2);
  EXPECT_EQ(victim(9), 2U);
  EXPECT_EQ(victim(9), 3U) << "2 ends already";
  EXPECT_EQ(governor.counters().evictions, 2U);
}

TEST_F(MakesRoom, WithoutPinnedEngines) {
  idle(1, 1, 0, true);
  EXPECT_FALSE(victim(9));
  idle(2, 2);
  EXPECT_EQ(victim(9), 2U);
}

TEST_F(MakesRoom, InTheMemoryThatIsShort) {
  idle(1, 1, 1);
  EXPECT_FALSE(victim(9, 0));
  idle(2, 2, 0);
  EXPECT_EQ(victim(9, 0), 2U);
  EXPECT_EQ(victim(9, 1), 1U);
}

// An engine that ended for a load and is wanted again meanwhile does not end for it twice.
TEST_F(MakesRoom, FirstByTheEndOfASpareEngineAlsoForWhoMayNotEvict) {
  idle(1, 0);
  auto c = claim("background", 10);
  c.spare = true;
  governor.ready(2, c, 10, at(0));
  uses.push_back({2, at(19)});
  EXPECT_EQ(victim(9, 0, false), 2U);
  EXPECT_EQ(governor.counters().evictions, 0U);
  EXPECT_FALSE(victim(9, 0, false));
  EXPECT_EQ(victim(9), 1U);
}

TEST_F(MakesRoom, WithoutEnginesThatWorkedSinceTheLoadFirstFailed) {
  idle(1, 5);
  EXPECT_FALSE(victim(4));
  EXPECT_EQ(victim(5), 1U);
}

TEST_F(MakesRoom, WithoutEnginesAtWork) {
  idle(1, 1);
  uses.front().idle_since.reset();
  EXPECT_FALSE(victim(9));
}

TEST_F(MakesRoom, ForNobodyWhoMayNotEvict) {
  idle(1, 1);
  EXPECT_FALSE(victim(9, 0, false));
  EXPECT_EQ(governor.counters().evictions, 0U);
}

}  // namespace
}  // namespace flyball::fleet
