// Turns at engines: who is told when, and that places given up pass on.
#include "daemon/route/turns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace flyball::route {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct TurnsTest : ::testing::Test {
  std::int64_t ms = 0;
  std::shared_ptr<Turns> turns = std::make_shared<Turns>([this] { return ms; });
  std::vector<std::string> told;

  Turns::Place ask(const std::string& who, const std::string& app = "a", const std::string& backend = "cpu",
                   bool goes_on = false) {
    return ask_as(turns->arrive(1), who, app, backend, goes_on);
  }
  Turns::Place ask_as(FairQueue::Id arrival, const std::string& who, const std::string& app,
                      const std::string& backend, bool goes_on = false) {
    return turns->ask({"m", backend, 2, app, 1, 10, goes_on, arrival}, [this, who] { told.push_back(who); });
  }
};

TEST_F(TurnsTest, AnEngineGetsAsManyAsItComputesAtOnce) {
  auto one = ask("one"), two = ask("two"), three = ask("three"), four = ask("four");
  EXPECT_THAT(told, ElementsAre("one", "two"));
  EXPECT_EQ(turns->waiting("m", "cpu"), 2U);
  EXPECT_EQ(turns->waiting("m", "vulkan"), 0U);
  three = {};
  EXPECT_THAT(told, ElementsAre("one", "two"));
  one = {};
  EXPECT_THAT(told, ElementsAre("one", "two", "four"));
  EXPECT_EQ(turns->waiting("m", "cpu"), 0U);
  auto elsewhere = ask("elsewhere", "a", "vulkan");
  EXPECT_EQ(told.back(), "elsewhere") << "each engine has a line of its own";
}

TEST_F(TurnsTest, WhoHadATurnElsewhereWaitsForNobody) {
  auto one = ask("one"), two = ask("two");
  auto moved = ask("moved", "b", "cpu", true);
  EXPECT_THAT(told, ElementsAre("one", "two", "moved"));
  auto three = ask("three");
  one = {};
  EXPECT_EQ(told.size(), 3U) << "there are still two at the engine";
  two = {};
  EXPECT_EQ(told.back(), "three");
}

TEST_F(TurnsTest, WhatIsComputedCounts) {
  auto one = ask("one"), two = ask("two");
  auto more = ask("more"), other = ask("other", "b");
  one.generated(1000);
  two = {};
  EXPECT_EQ(told.back(), "other") << "its app had less";
  one.settle(5);
  one = {};
  EXPECT_EQ(told.back(), "more");
}

TEST_F(TurnsTest, TheLastPlaceIsForWhoHasNothingRunning) {
  auto other = ask("other", "b");
  other = {};
  auto one = ask("one"), two = ask("two");
  EXPECT_THAT(told, ElementsAre("other", "one"));
  other = ask("again", "b");
  EXPECT_THAT(told, ElementsAre("other", "one", "again"));
}

// What kept the last place from an app was that it was ahead: when the other has caught up it begins, and
// does not wait for somebody to leave.
TEST_F(TurnsTest, ChargesAloneMayOpenTheLastPlace) {
  auto one = ask("one"), other = ask("other", "b");
  auto two = ask("two");
  other.generated(2 * kMostLead);
  auto again = ask("again", "b");
  other = {};
  EXPECT_THAT(told, ElementsAre("one", "other"));
  one.generated(2 * kMostLead);
  EXPECT_THAT(told, ElementsAre("one", "other", "again"));
}

TEST_F(TurnsTest, WhoWaitsIsToldHowLong) {
  auto one = ask("one"), two = ask("two"), three = ask("three"), four = ask("four"), five = ask("five");
  EXPECT_FALSE(one.in_line()) << "it has its turn";
  EXPECT_EQ(five.in_line()->ahead, 2U);
  EXPECT_EQ(five.in_line()->eta_ms, -1) << "nothing is known yet";
  EXPECT_EQ(turns->pace_ms("m"), -1);
  ms = 1000;
  one = {};
  ms = 1500;
  two = {};
  EXPECT_EQ(five.in_line()->ahead, 0U);
  EXPECT_EQ(five.in_line()->eta_ms, 500) << "as long as between the two";
  EXPECT_EQ(turns->pace_ms("m"), 500);
  ms = 2100;
  three = {};
  EXPECT_EQ(turns->pace_ms("m"), 510) << "the mean moves slowly";
  EXPECT_FALSE(five.in_line());
  ms = 900'000;
  four = {};
  auto again = ask("again"), sixth = ask("sixth");
  ms = 900'100;
  five = {};
  EXPECT_EQ(turns->pace_ms("m"), 510) << "nobody waited for the time before";
  EXPECT_EQ(turns->pace_ms("other"), -1);
}

TEST_F(TurnsTest, ARequestThatMovesKeepsItsAge) {
  auto one = ask("one", "a", "vulkan"), two = ask("two", "a", "vulkan");
  auto cpu_one = ask("cpu one"), cpu_two = ask("cpu two");
  const FairQueue::Id arrival = turns->arrive(2);
  auto first = ask_as(arrival, "first", "a", "cpu"), second = ask_as(arrival + 1, "second", "a", "cpu");
  auto later = ask("later", "a", "vulkan");
  EXPECT_EQ(first.in_line()->ahead, 0U);
  second = ask_as(arrival + 1, "second", "a", "vulkan");
  first = ask_as(arrival, "first", "a", "vulkan");
  EXPECT_EQ(first.in_line()->ahead, 0U);
  EXPECT_EQ(second.in_line()->ahead, 1U) << "answers of one request keep their order";
  EXPECT_EQ(later.in_line()->ahead, 2U);
  told.clear();
  one = {};
  two = {};
  first = {};
  EXPECT_THAT(told, ElementsAre("first", "second", "later"));
  EXPECT_EQ(turns->waiting("m", "cpu"), 0U);
}

TEST_F(TurnsTest, ForetellsTheTurnOfARequestInItsOwnLineAndInOthers) {
  auto one = ask("one"), two = ask("two"), third = ask("three");
  const FairQueue::Id arrival = turns->arrive(2);
  auto first = ask_as(arrival, "first", "a", "cpu"), second = ask_as(arrival + 1, "second", "a", "cpu");
  auto later = ask("later");
  auto elsewhere = ask("elsewhere", "a", "vulkan");
  const FairQueue::Coming coming{.app = "a", .prompt_tokens = 10, .answers = 2, .arrival = arrival};
  std::vector<predict::LineState> lines;
  turns->forecast("m", coming, lines);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].backend, "cpu");
  EXPECT_EQ(lines[0].turn.before, 1U);
  EXPECT_EQ(lines[0].turn.waiting, 2U) << "two of those that wait are its own";
  EXPECT_EQ(lines[0].turn.ends_between, 1U);
  EXPECT_EQ(lines[1].backend, "vulkan");
  EXPECT_EQ(lines[1].turn.before, 0U);
  EXPECT_EQ(lines[1].turn.taken, 1U);
  EXPECT_EQ(turns->forecast("m", "cpu", coming)->turn.before, 1U);
  EXPECT_EQ(turns->forecast("m", "vulkan", coming)->turn.taken, 1U);
  EXPECT_FALSE(turns->forecast("m", "opencl", coming));
}

TEST_F(TurnsTest, AMovedRequestTakesNoShareOfAnotherApp) {
  const FairQueue::Id old = turns->arrive(1);
  auto one = ask("one", "a", "vulkan"), two = ask("two", "a", "vulkan");
  auto other = ask("other", "b", "vulkan");
  EXPECT_EQ(told.back(), "other") << "beside both of them";
  auto others_next = ask("other's next", "b", "vulkan");
  one.generated(2 * kMostLead);
  auto moved = ask_as(old, "moved", "a", "vulkan");
  one = {};
  two = {};
  other = {};
  EXPECT_THAT(told, ElementsAre("one", "two", "other", "other's next", "moved")) << "its app had less";
}

TEST_F(TurnsTest, PlacesMayOutliveTheLines) {
  auto one = ask("one"), waiting = ask("two");
  auto third = ask("three");
  turns.reset();
  told.clear();
  one = {};
  EXPECT_THAT(told, IsEmpty());
  third.generated(1);
  third.settle(1);
}

}  // namespace
}  // namespace flyball::route
