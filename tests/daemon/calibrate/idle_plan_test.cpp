// When the daemon measures by itself, and what; and that it can be given up.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "daemon/calibrate/idle_refresh.hpp"
#include "daemon/probe/children.hpp"

namespace flyball::cli {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

using Outcome = calibrate::IdlePlan::Outcome;
const calibrate::IdlePlan::TimePoint kStart = calibrate::IdlePlan::TimePoint() + hours(1000);

TEST(IdlePlan, IsIdleOnceNothingWasDoneForSoLong) {
  calibrate::IdlePlan plan(kStart);
  EXPECT_FALSE(plan.idle(kStart + minutes(29), false, minutes(30))) << "it has just begun";
  EXPECT_TRUE(plan.idle(kStart + minutes(30), false, minutes(30)));
  EXPECT_FALSE(plan.idle(kStart + minutes(31), true, minutes(30)));
  EXPECT_FALSE(plan.idle(kStart + minutes(60), false, minutes(30)));
  EXPECT_TRUE(plan.idle(kStart + minutes(61), false, minutes(30)));
}

TEST(IdlePlan, TakesWhatIsDueInOrderAndTriesNothingTwiceInARow) {
  calibrate::IdlePlan plan(kStart);
  const std::vector<calibrate::IdlePlan::Due> due = {{{"a", "cpu"}, "1"}, {{"a", "vulkan"}, "1"}};
  EXPECT_EQ(plan.next({}, kStart), std::nullopt);
  EXPECT_EQ(plan.next(due, kStart), 0U);
  EXPECT_EQ(plan.next(due, kStart), 0U) << "given up is not tried";
  plan.tried(due[0], Outcome::failed, kStart);
  EXPECT_EQ(plan.next(due, kStart), 1U);
  plan.tried(due[1], Outcome::measured, kStart + seconds(1));
  EXPECT_EQ(plan.next(due, kStart + calibrate::IdlePlan::kRetry - seconds(1)), std::nullopt);
  EXPECT_EQ(plan.next(due, kStart + calibrate::IdlePlan::kRetry), 0U);
}

TEST(IdlePlan, WhatWasRefusedIsNotTriedAgainBeforeItChanges) {
  calibrate::IdlePlan plan(kStart);
  const std::vector<calibrate::IdlePlan::Due> due = {{{"a", "cpu"}, "1"}};
  plan.tried(due[0], Outcome::refused, kStart);
  EXPECT_EQ(plan.next(due, kStart + hours(10'000)), std::nullopt);
  const std::vector<calibrate::IdlePlan::Due> changed = {{{"a", "cpu"}, "2"}};
  EXPECT_EQ(plan.next(changed, kStart + seconds(1)), 0U);
}

TEST(IdlePlan, MemoryIsLookedForAgainBefore) {
  calibrate::IdlePlan plan(kStart);
  const std::vector<calibrate::IdlePlan::Due> due = {{{"a", "cpu"}, "1"}};
  plan.tried(due[0], Outcome::no_room, kStart);
  EXPECT_EQ(plan.next(due, kStart + calibrate::IdlePlan::kRetryForRoom - seconds(1)), std::nullopt);
  EXPECT_EQ(plan.next(due, kStart + calibrate::IdlePlan::kRetryForRoom), 0U);
}

TEST(Children, AreKilledAtAStop) {
  std::jthread asker;
  std::vector<probe::ChildAnswer> answers;
  asker = std::jthread([&](const std::stop_token& stop) {
    answers = probe::ask_children("/bin/sh", {{"-c", "echo begun; sleep 3600"}}, hours(1), stop);
  });
  asker.request_stop();
  asker.join();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].ended_well());
}

TEST(Children, AskAndAreAnswered) {
  std::vector<std::string> lines;
  const auto answer = probe::talk_to_child(
      "/bin/sh", {"-c", "echo one; read a; echo got $a"},
      [&](std::string_view line) -> std::optional<std::string> {
        lines.emplace_back(line);
        return line == "one" ? "yes\n" : "";
      },
      hours(1));
  EXPECT_TRUE(answer.ended_well());
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "got yes"}));
}

TEST(Children, WhoIsDismissedIsKilled) {
  const auto answer = probe::talk_to_child(
      "/bin/sh", {"-c", "echo one; sleep 3600"},
      [](std::string_view) -> std::optional<std::string> { return std::nullopt; }, hours(1));
  EXPECT_EQ(answer.end, probe::ChildAnswer::End::dismissed);
  EXPECT_EQ(answer.text, "one\n");
}

TEST(Children, WhoDoesNotListenIsNoTrouble) {
  const auto answer = probe::talk_to_child(
      "/bin/sh", {"-c", "exec 0<&-; echo one; echo two"},
      [](std::string_view) { return std::string(1000, 'x'); }, hours(1));
  EXPECT_TRUE(answer.ended_well());
  EXPECT_EQ(answer.text, "one\ntwo\n");
}

}  // namespace
}  // namespace flyball::cli
