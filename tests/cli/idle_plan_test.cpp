// When the daemon measures by itself, and what; and that it can be given up.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "daemon/cli/idle_refresh.hpp"
#include "daemon/route/children.hpp"

namespace flyball::cli {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const IdlePlan::TimePoint kStart = IdlePlan::TimePoint() + hours(1000);

TEST(IdlePlan, IsIdleOnceNothingWasDoneForSoLong) {
  IdlePlan plan(kStart);
  EXPECT_FALSE(plan.idle(kStart + minutes(29), false, minutes(30))) << "it has just begun";
  EXPECT_TRUE(plan.idle(kStart + minutes(30), false, minutes(30)));
  EXPECT_FALSE(plan.idle(kStart + minutes(31), true, minutes(30)));
  EXPECT_FALSE(plan.idle(kStart + minutes(60), false, minutes(30)));
  EXPECT_TRUE(plan.idle(kStart + minutes(61), false, minutes(30)));
}

TEST(IdlePlan, TakesWhatIsDueInOrderAndTriesNothingTwiceInARow) {
  IdlePlan plan(kStart);
  const std::vector<IdlePlan::Pair> due = {{"a", "cpu"}, {"a", "vulkan"}};
  EXPECT_EQ(plan.next({}, kStart), std::nullopt);
  EXPECT_EQ(plan.next(due, kStart), due[0]);
  EXPECT_EQ(plan.next(due, kStart), due[0]) << "given up is not tried";
  plan.tried(due[0], kStart);
  EXPECT_EQ(plan.next(due, kStart), due[1]);
  plan.tried(due[1], kStart + seconds(1));
  EXPECT_EQ(plan.next(due, kStart + IdlePlan::kRetry - seconds(1)), std::nullopt);
  EXPECT_EQ(plan.next(due, kStart + IdlePlan::kRetry), due[0]);
}

TEST(Children, AreKilledAtAStop) {
  std::jthread asker;
  std::vector<route::ChildAnswer> answers;
  asker = std::jthread([&](const std::stop_token& stop) {
    answers = route::ask_children("/bin/sh", {{"-c", "echo begun; sleep 3600"}}, hours(1), stop);
  });
  asker.request_stop();
  asker.join();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].ended_well());
}

}  // namespace
}  // namespace flyball::cli
