// When the fleet starts a worker again and when it gives up: the state machine alone, with a clock of our
// own.
#include "daemon/fleet/lifecycle.hpp"

#include <gtest/gtest.h>

namespace flyball::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Error kCrash{ErrorCode::worker_died, "killed", "", ""};

struct LifecycleTest : ::testing::Test {
  config::WorkerLimits limits;
  TimePoint now{seconds(1000)};
  Lifecycle life{limits};

  void start() {
    EXPECT_TRUE(life.wanted(now).spawn);
    life.ready(now);
  }
};

TEST_F(LifecycleTest, OneSpawnServesManyWaiters) {
  EXPECT_TRUE(life.wanted(now).spawn);
  for (int i = 0; i < 100; ++i) {
    const auto wanted = life.wanted(now);
    EXPECT_FALSE(wanted.spawn);
    EXPECT_FALSE(wanted.refuse);
  }
  EXPECT_EQ(life.state(now), WorkerState::starting);
  EXPECT_FALSE(life.was_ready());
  life.ready(now);
  EXPECT_EQ(life.state(now), WorkerState::ready);
  EXPECT_FALSE(life.wanted(now).spawn);
  life.ended(now, {ErrorCode::worker_died, "idle", "", ""}, true);
  EXPECT_TRUE(life.was_ready());
  life.forgive();
  EXPECT_FALSE(life.was_ready()) << "the file is another now";
}

TEST_F(LifecycleTest, TheFirstDeathIsAnsweredAtOnce) {
  start();
  const auto ended = life.ended(now, kCrash, false);
  EXPECT_FALSE(ended.fail_waiters);
  ASSERT_TRUE(ended.restart_at);
  EXPECT_EQ(*ended.restart_at, now);
  EXPECT_FALSE(life.wanted(now).refuse);  // waits for the restart
  life.restart(true);
  EXPECT_EQ(life.state(now), WorkerState::starting);
  EXPECT_EQ(life.restarts(), 1U);
}

TEST_F(LifecycleTest, TheSecondDeathWaitsAndTheThirdDisables) {
  start();
  life.ended(now, kCrash, false);
  life.restart(true);
  life.ready(now);
  const auto second = life.ended(now, kCrash, false);
  ASSERT_TRUE(second.restart_at);
  EXPECT_EQ(*second.restart_at, now + limits.backoff_min);
  life.restart(true);
  const auto third = life.ended(now, kCrash, false);
  EXPECT_FALSE(third.restart_at);
  ASSERT_TRUE(third.fail_waiters);
  EXPECT_EQ(third.fail_waiters->code, ErrorCode::model_unavailable);
  EXPECT_EQ(life.state(now), WorkerState::disabled);
  EXPECT_EQ(life.wanted(now).refuse->code, ErrorCode::model_unavailable);
  // After a whole window it may try again, from a clean slate of recent deaths.
  now += limits.disable_window + seconds(1);
  EXPECT_EQ(life.state(now), WorkerState::stopped);
  EXPECT_TRUE(life.wanted(now).spawn);
  EXPECT_TRUE(life.ended(now, kCrash, false).restart_at);
}

TEST_F(LifecycleTest, DeathsFarApartNeverDisable) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(life.wanted(now).refuse);
    life.restart(true);
    life.ready(now);
    const auto ended = life.ended(now, kCrash, false);
    ASSERT_TRUE(ended.restart_at) << i;
    EXPECT_EQ(*ended.restart_at, now) << i;
    life.restart(false);
    now += limits.disable_window + seconds(1);
  }
}

TEST_F(LifecycleTest, AnInvalidModelIsNotRetriedUntilItsFileChanges) {
  life.wanted(now);
  const auto ended = life.ended(now, {ErrorCode::model_invalid, "bad magic", "", "byte 0"}, false);
  EXPECT_FALSE(ended.restart_at);
  EXPECT_EQ(ended.fail_waiters->code, ErrorCode::model_invalid);
  EXPECT_TRUE(life.invalid());
  // Not `disabled`: that would tell the router that the engine is at fault, and clients read no_target.
  EXPECT_EQ(life.state(now), WorkerState::stopped);
  now += std::chrono::hours(24 * 365);
  EXPECT_EQ(life.wanted(now).refuse->code, ErrorCode::model_invalid);
  life.forgive();
  EXPECT_TRUE(life.wanted(now).spawn);
}

TEST_F(LifecycleTest, AFailedLoadFailsFastAndLooksAgainLater) {
  const Error memory{ErrorCode::insufficient_memory, "needs 9 GiB, 4 GiB are free", "", ""};
  milliseconds expected = limits.backoff_min;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(life.wanted(now).spawn) << i;
    const auto ended = life.ended(now, memory, false);
    EXPECT_EQ(ended.fail_waiters->code, ErrorCode::insufficient_memory);
    EXPECT_FALSE(ended.restart_at);
    EXPECT_EQ(life.wanted(now).refuse->code, ErrorCode::insufficient_memory);
    EXPECT_EQ(life.wanted(now + expected - milliseconds(1)).refuse->code, ErrorCode::insufficient_memory);
    now += expected;
    expected = std::min(limits.backoff_max, expected * 2);
  }
  EXPECT_EQ(expected, limits.backoff_max);
  EXPECT_NE(life.state(now), WorkerState::disabled);  // a full machine is not a broken engine
}

const Error kNoMemory{ErrorCode::insufficient_memory, "needs 9 GiB, 4 GiB are free", "", ""};

TEST_F(LifecycleTest, ALoadWithoutMemoryWantsTheRoomOfThoseIdleWhenItFirstFailed) {
  life.wanted(now);
  EXPECT_FALSE(life.wants_room(now, {ErrorCode::io_error, "absent", "", ""}));
  EXPECT_FALSE(life.wants_room(now, kCrash));
  EXPECT_EQ(life.wants_room(now, kNoMemory), now);
  life.room_made();
  EXPECT_EQ(life.state(now), WorkerState::starting);
  EXPECT_EQ(life.wants_room(now + seconds(3), kNoMemory), now);
  life.ready(now + seconds(4));
  EXPECT_FALSE(life.wants_room(now + seconds(4), kNoMemory));  // it is loaded
  life.ended(now + seconds(5), kCrash, false);
  life.restart(true);
  EXPECT_EQ(life.wants_room(now + seconds(6), kNoMemory), now + seconds(6));
}

TEST_F(LifecycleTest, ALoadThatFailedAlthoughRoomWasMadeWantsNoneForAWindow) {
  const auto fails = [&](bool room) {
    EXPECT_TRUE(life.wanted(now).spawn);
    const bool wants = life.wants_room(now, kNoMemory).has_value();
    if (room) life.room_made();
    EXPECT_EQ(life.ended(now, kNoMemory, false).fail_waiters->code, ErrorCode::insufficient_memory);
    return wants;
  };
  EXPECT_TRUE(fails(false));  // nobody was idle
  now += limits.backoff_max;
  EXPECT_TRUE(fails(true));
  const TimePoint failed = now;
  now += limits.backoff_max;
  EXPECT_FALSE(fails(false));
  now = failed + limits.disable_window;
  EXPECT_TRUE(fails(true));
  life.forgive();  // a reload
  EXPECT_TRUE(fails(true));
  now += limits.backoff_max;
  start();  // it fits after all
  life.ended(now, kCrash, false);
  life.restart(true);
  EXPECT_TRUE(life.wants_room(now, kNoMemory));
}

// At a load as in an answer: fast failures, and after the third no more of them.
TEST_F(LifecycleTest, ADeviceLostThreeTimesIsDisabled) {
  const Error lost{ErrorCode::device_lost, "the device is gone", "", ""};
  start();
  EXPECT_TRUE(life.ended(now, lost, false).restart_at);
  life.restart(true);
  const auto second = life.ended(now, lost, false);
  EXPECT_EQ(second.fail_waiters->code, ErrorCode::model_unavailable);
  EXPECT_EQ(life.state(now), WorkerState::backoff);
  now += limits.backoff_min;
  ASSERT_TRUE(life.wanted(now).spawn);
  EXPECT_EQ(life.ended(now, lost, false).fail_waiters->code, ErrorCode::model_unavailable);
  EXPECT_EQ(life.state(now), WorkerState::disabled);
  now += limits.disable_window + seconds(1);
  EXPECT_TRUE(life.wanted(now).spawn);
}

// The request that asked first made no mistake: neither a missing file nor a wrong config entry is its 400.
// What will not get better by itself does not invite a retry, and costs no second load; a file that is absent
// may come.
TEST_F(LifecycleTest, ALoadThatFailsForAnotherReasonSaysWhetherToAskAgain) {
  struct Case {
    ErrorCode cause, told;
    bool looks_again;
  };
  for (const Case& c : {Case{ErrorCode::io_error, ErrorCode::model_invalid, true},
                        Case{ErrorCode::invalid_value, ErrorCode::model_invalid, false},
                        Case{ErrorCode::unsupported_value, ErrorCode::model_unsupported, false},
                        Case{ErrorCode::device_lost, ErrorCode::model_unavailable, true},
                        Case{ErrorCode::internal, ErrorCode::model_unavailable, true}}) {
    SCOPED_TRACE(to_string(c.cause));
    ASSERT_TRUE(life.wanted(now).spawn);
    const auto ended = life.ended(now, {c.cause, "the cause", "context", "/srv/model.gguf"}, false);
    for (const auto& error : {ended.fail_waiters, life.wanted(now).refuse}) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, c.told);
      EXPECT_EQ(error->message, "the cause");
      EXPECT_EQ(error->param, "");
    }
    now += limits.backoff_max;
    EXPECT_EQ(life.invalid(), !c.looks_again);
    if (!c.looks_again) {
      EXPECT_EQ(life.wanted(now).refuse->code, c.told);
    }
    life.forgive();
  }
}

TEST_F(LifecycleTest, AReloadDoesNotStrandThoseWhoWaitForARestart) {
  start();
  life.ended(now, kCrash, false);
  life.forgive();
  EXPECT_EQ(life.state(now), WorkerState::backoff);  // its timer is still to come
  life.restart(true);
  EXPECT_EQ(life.state(now), WorkerState::starting);
}

TEST_F(LifecycleTest, AStopOnPurposeIsNoDeath) {
  for (int i = 0; i < 10; ++i) {
    start();
    const auto ended = life.ended(now, {ErrorCode::shutting_down, "", "", ""}, true);
    EXPECT_FALSE(ended.restart_at);
    EXPECT_FALSE(ended.fail_waiters);  // who came meanwhile wants its successor
    EXPECT_EQ(life.state(now), WorkerState::stopped);
  }
}

}  // namespace
}  // namespace flyball::fleet
