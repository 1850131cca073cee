// What apps may use: each limit, what a refusal says and when it ends, and that no sum is ever exceeded,
// whatever 64 streams at once do. Random lives, seeds printed.
#include "daemon/route/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace flyball::route {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNoon = 20'000LL * 86'400 + 43'200;  // of some day

Now at(std::int64_t ms) {
  return {ms, kNoon + ms / 1000};
}

// A request whose client has its answers at once.
void end(Limits& limits, const Limits::Reservation& reservation, std::uint64_t used_tokens) {
  limits.settle("a", reservation, used_tokens);
  limits.leave("a", reservation.answers);
}

struct LimitsTest : ::testing::Test {
  Limits limits;
  config::AppLimits app;
  LimitsTest() { app.in_flight = 100; }

  std::expected<Limits::Reservation, Refusal> ask(std::int64_t ms, std::uint64_t least = 10,
                                                  std::uint64_t most = 20, std::uint32_t answers = 1) {
    return limits.admit("a", app, {answers, least, most}, at(ms));
  }
  std::expected<Standings, Refusal> charge(std::int64_t ms, std::uint64_t bytes = 0) {
    return limits.charge("a", app, bytes, at(ms));
  }
};

TEST_F(LimitsTest, NothingIsLimitedWhereNothingIsSaid) {
  for (int i = 0; i < 100; ++i) {
    const auto got = ask(0, 1'000'000, 2'000'000);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->tokens, 0U) << "the engine is told of no limit";
    EXPECT_FALSE(got->standings.requests || got->standings.tokens);
  }
  EXPECT_EQ(ask(0).error().error.code, ErrorCode::rate_limited);
  EXPECT_EQ(limits.in_flight("a"), 100U);
}

TEST_F(LimitsTest, InFlightAndQueueCountAnswers) {
  app.in_flight = 8;
  app.queue = 3;
  EXPECT_EQ(ask(0, 1, 1, 9).error().error.code, ErrorCode::invalid_value) << "it could never be served";
  auto first = ask(0, 1, 1, 5);
  ASSERT_TRUE(first) << "an empty queue takes any";
  EXPECT_THAT(ask(0, 1, 1, 1).error().error.message, HasSubstr("5 answers waiting; its limit is 3"));
  limits.begun("a", *first);
  limits.begun("a", *first);
  auto second = ask(0, 1, 1, 3);
  ASSERT_TRUE(second);
  const auto refused = ask(0, 1, 1, 1);
  EXPECT_THAT(refused.error().error.message, HasSubstr("8 answers in flight; its limit is 8"));
  EXPECT_EQ(refused.error().retry_after_ms, -1) << "nobody knows when one ends";
  end(limits, *first, 0);
  end(limits, *second, 0);
  EXPECT_EQ(limits.in_flight("a"), 0U);
  EXPECT_TRUE(ask(0, 1, 1, 8));
}

TEST_F(LimitsTest, RequestsAMinuteComeBackEvenly) {
  app.requests_per_minute = 30;
  for (int i = 0; i < 30; ++i) {
    const auto got = charge(1000);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->requests->limit, 30U);
    EXPECT_EQ(got->requests->remaining, 29U - static_cast<unsigned>(i));
    EXPECT_EQ(got->requests->reset_ms, 2000 * (i + 1));
  }
  auto refused = charge(1500);
  EXPECT_THAT(refused.error().error.message, HasSubstr("30 requests a minute. It is free again in 2 s."));
  EXPECT_EQ(refused.error().retry_after_ms, 1500) << "one every two seconds";
  EXPECT_EQ(charge(2999).error().retry_after_ms, 1);
  EXPECT_TRUE(charge(3000)) << "exactly then";
  EXPECT_FALSE(charge(3000));
  EXPECT_FALSE(charge(2000)) << "a clock that goes back gives nothing";
  ASSERT_TRUE(charge(5000));
  const auto admitted = ask(5000);
  ASSERT_TRUE(admitted) << "what is charged is admitted without a second charge";
  EXPECT_EQ(admitted->standings.requests->remaining, 0U);
  end(limits, *admitted, 0);
  limits.give_back("a", 1, 0);
  EXPECT_TRUE(charge(5000)) << "what the daemon had no room for is not counted";
}

TEST_F(LimitsTest, BytesAMinuteComeBackEvenly) {
  app.bytes_per_minute = 6000;
  EXPECT_EQ(charge(0, 6001).error().error.code, ErrorCode::body_too_large) << "it could never be sent";
  EXPECT_EQ(charge(0, 6001).error().retry_after_ms, -1);
  const auto first = charge(0, 4000);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bytes->limit, 6000U);
  EXPECT_EQ(first->bytes->remaining, 2000U);
  EXPECT_EQ(first->bytes->reset_ms, 40'000);
  const auto refused = charge(0, 2500);
  EXPECT_THAT(refused.error().error.message,
              HasSubstr("2000 of its 6000 bytes a minute left, and this body has 2500"));
  EXPECT_EQ(refused.error().retry_after_ms, 5000) << "a hundred a second";
  EXPECT_EQ(refused.error().standings.bytes->remaining, 2000U) << "a refusal costs nothing";
  EXPECT_TRUE(charge(0)) << "a request without a body";
  EXPECT_TRUE(charge(5000, 2500)) << "exactly then";
  limits.give_back("a", 0, 1000);
  EXPECT_TRUE(charge(5000, 1000)) << "a body that was shorter than it might have been";
  limits.give_back("a", 1, 1000);
  EXPECT_TRUE(charge(5000, 1000));
  EXPECT_FALSE(charge(5000, 1));
}

TEST_F(LimitsTest, ARefusedChargeCostsNothing) {
  app.requests_per_minute = 2;
  app.bytes_per_minute = 100;
  EXPECT_TRUE(charge(0, 100));
  EXPECT_FALSE(charge(0, 1));
  EXPECT_EQ(charge(0)->requests->remaining, 0U) << "the refused one took no request";
  EXPECT_EQ(charge(30'000, 100).error().retry_after_ms, 30'000) << "of two reasons the longer one is told";
  EXPECT_EQ(charge(30'000, 50)->bytes->remaining, 0U) << "nor bytes";
}

TEST_F(LimitsTest, ALostDayAdmitsNothingOfADailyBudgetUntilMidnight) {
  limits.lose("a", kNoon / 86'400);
  EXPECT_TRUE(ask(0)) << "without a budget nobody asks what was used";
  app.tokens_per_day = 1000;
  const auto refused = ask(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.code, ErrorCode::rate_limited);
  EXPECT_THAT(refused.error().error.message, HasSubstr("cannot read how much of its 1000 tokens a day"));
  EXPECT_EQ(refused.error().retry_after_ms, 43'200'000);
  EXPECT_EQ(refused.error().standings.tokens->remaining, 0U);
  EXPECT_TRUE(limits.admit("b", app, {1, 10, 20}, at(0))) << "another app's day is known";
  EXPECT_TRUE(ask(43'200'000)) << "a new day";
}

TEST_F(LimitsTest, TokensAMinuteAreReservedAndSettled) {
  app.tokens_per_minute = 600;
  EXPECT_EQ(ask(0, 601, 700).error().error.code, ErrorCode::invalid_value);
  const auto first = ask(0, 100, 500);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->tokens, 500U);
  EXPECT_EQ(first->standings.tokens->remaining, 100U);
  const auto second = ask(0, 50, 500);
  ASSERT_TRUE(second) << "with less than it asks for at most";
  EXPECT_EQ(second->tokens, 100U);
  const auto refused = ask(0, 100, 100);
  EXPECT_EQ(refused.error().retry_after_ms, 10'000) << "ten a second";
  EXPECT_EQ(ask(9'999, 100, 100).error().retry_after_ms, 1);
  end(limits, *first, 120);
  EXPECT_EQ(ask(0, 100, 380)->tokens, 380U) << "what it did not need";
}

TEST_F(LimitsTest, ADayEndsAtMidnightUtc) {
  app.tokens_per_day = 1000;
  const auto open = ask(0, 10, 700);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->tokens, 700U);
  EXPECT_EQ(open->standings.tokens->limit, 1000U);
  EXPECT_EQ(open->standings.tokens->remaining, 300U);
  EXPECT_EQ(open->standings.tokens->reset_ms, 43'200'000);
  EXPECT_EQ(ask(0, 400, 400).error().retry_after_ms, -1) << "the open one may give some back";
  const auto other = ask(0, 300, 900);
  ASSERT_TRUE(other);
  end(limits, *other, 300);
  auto refused = ask(2000, 701, 800);
  EXPECT_EQ(refused.error().retry_after_ms, 43'198'000);
  EXPECT_THAT(refused.error().error.message,
              HasSubstr("used 300 of its 1000 tokens a day (UTC), its open requests hold 700"));
  const auto tomorrow = ask(43'200'000, 1000, 1000);
  ASSERT_TRUE(tomorrow);
  end(limits, *open, 650);  // yesterday's
  end(limits, *tomorrow, 1);
  EXPECT_EQ(limits.used_on("a", tomorrow->day), 1U);
  EXPECT_EQ(ask(43'200'000, 999, 2000)->tokens, 999U);
}

TEST_F(LimitsTest, ADayGoesOnAfterARestart) {
  app.tokens_per_day = 1000;
  limits.restore("a", at(0).day(), 990);
  EXPECT_FALSE(ask(0, 11, 20));
  EXPECT_EQ(ask(0, 10, 20)->tokens, 10U);
  limits.restore("b", at(0).day() - 1, 990);
  EXPECT_TRUE(limits.admit("b", app, {1, 1000, 1000}, at(0)));
}

// A clock that was wrong for a while: each day keeps its own sum.
TEST_F(LimitsTest, AClockThatGoesBackFindsItsDay) {
  app.tokens_per_day = 1000;
  constexpr std::int64_t kYears = 10LL * 365 * 86'400'000;
  const auto open = ask(0, 10, 400);
  ASSERT_TRUE(open);
  end(limits, *ask(0, 10, 300), 300);
  const auto ahead = ask(kYears, 1000, 1000);
  ASSERT_TRUE(ahead) << "another day";
  end(limits, *ahead, 1000);
  EXPECT_EQ(limits.used_on("a", at(0).day()), 300U);
  EXPECT_FALSE(ask(1000, 301, 400)) << "what was reserved is so still";
  EXPECT_EQ(ask(1000, 10, 100)->tokens, 100U);
  end(limits, *open, 400);
  EXPECT_EQ(limits.used_on("a", at(0).day()), 700U);
  limits.restore("b", at(0).day(), 10);
  limits.restore("b", at(kYears).day(), 1000);
  EXPECT_EQ(limits.admit("b", app, {1, 990, 990}, at(0))->tokens, 990U) << "after a restart, too";
}

TEST_F(LimitsTest, DaysFarAwayAreForgotten) {
  app.tokens_per_day = 1000;
  constexpr std::int64_t kDay = 86'400'000;
  const auto open = ask(0, 10, 400);
  for (int day = 1; day <= 100; ++day) end(limits, *ask(day * kDay, 10, 10), 10);
  EXPECT_EQ(limits.used_on("a", at(0).day()), 0U);
  EXPECT_EQ(limits.used_on("a", at(99 * kDay).day()), 10U);
  end(limits, *open, 400);
  EXPECT_EQ(limits.in_flight("a"), 0U);
}

TEST_F(LimitsTest, KvTokensAreWhatIsOpenNow) {
  app.kv_tokens = 100;
  const auto first = ask(0, 10, 60), second = ask(0, 10, 60);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->tokens, 40U);
  EXPECT_THAT(ask(0, 1, 1).error().error.message, HasSubstr("hold 100 of its 100 KV tokens"));
  end(limits, *first, 60);
  EXPECT_EQ(ask(0, 10, 200)->tokens, 60U);
}

// Time alone must not promise what it cannot keep: of two reasons the longer one is told.
TEST_F(LimitsTest, TheLongestReasonIsTold) {
  app.tokens_per_minute = 60;
  app.tokens_per_day = 60;
  const auto all = ask(0, 1, 60);
  ASSERT_TRUE(all);
  EXPECT_EQ(ask(0, 30, 30).error().retry_after_ms, 30'000) << "the day's may come back at any time";
  limits.settle("a", *all, 60);
  EXPECT_EQ(ask(0, 30, 30).error().retry_after_ms, 43'200'000);
}

// Apps of one limit say nothing about another's.
TEST_F(LimitsTest, AppsDoNotShare) {
  app.tokens_per_day = 10;
  ASSERT_TRUE(ask(0));
  EXPECT_FALSE(ask(0));
  EXPECT_TRUE(limits.admit("b", app, {1, 10, 10}, at(0)));
}

// 64 streams and more at once over an engine that keeps to what it is told: prompts longer or shorter than
// estimated, answers that end anywhere, clients that leave. Checked token by token against sums kept apart.
TEST(LimitsModel, NoSumIsEverExceeded) {
  std::uint64_t most_open = 0, refused = 0, days_full = 0;
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t from, std::uint64_t to) {
      return std::uniform_int_distribution<std::uint64_t>(from, to)(random);
    };
    config::AppLimits app;
    app.in_flight = 64;
    app.tokens_per_minute = draw(0, 1) * draw(3'000, 30'000);
    app.tokens_per_day = draw(40'000, 120'000);
    app.kv_tokens = draw(0, 1) * draw(2'000, 20'000);
    Limits limits;
    struct Stream {
      Limits::Reservation reservation;
      std::uint64_t prompt, answer, generated = 0;
      bool computed = false;
    };
    std::vector<Stream> open;
    std::uint64_t today = 0, ever = 0;  // tokens computed
    std::int64_t ms = 0, day = at(0).day();
    for (int step = 0; step < 40'000; ++step) {
      ms += static_cast<std::int64_t>(draw(0, step % 1000 == 0 ? 20'000'000 : 300));
      const Now now = at(ms);
      if (now.day() != day) {
        days_full += today + 200 > app.tokens_per_day;
        // Those of yesterday count there; with nothing open both sums begin anew.
        for (const Stream& s : open) end(limits, s.reservation, s.computed ? s.prompt + s.generated : 0);
        open.clear();
        today = 0;
        day = now.day();
      }
      for (int i = 0; i < 4; ++i) {
        const std::uint64_t estimate = draw(1, 100), max_tokens = draw(1, 400);
        const std::uint64_t bound = estimate * 4;
        const auto got = limits.admit("a", app, {1, estimate + max_tokens, bound + max_tokens}, now);
        if (!got) {
          ++refused;
          continue;
        }
        // Its prompt comes to anything, beyond what was thought possible, too.
        open.push_back({*got, draw(1, bound + 50), draw(1, max_tokens)});
      }
      most_open = std::max<std::uint64_t>(most_open, open.size());
      for (std::size_t i = open.size(); i-- > 0;) {
        Stream& s = open[i];
        const std::uint64_t left = s.reservation.tokens;
        ASSERT_GT(left, 0U);
        bool over = draw(0, 200) == 0;  // the client leaves
        if (!s.computed && !over) {
          if (s.prompt >= left) {
            over = true;  // the engine refuses it, and has computed nothing
          } else {
            s.computed = true;
            today += s.prompt;
            ever += s.prompt;
            limits.begun("a", s.reservation);
          }
        } else if (!over) {
          ++s.generated;
          ++today;
          ++ever;
        }
        ASSERT_LE(today, app.tokens_per_day) << "at step " << step;
        if (over || s.generated == s.answer || s.prompt + s.generated == left) {
          end(limits, s.reservation, s.computed ? s.prompt + s.generated : 0);
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      ASSERT_LE(open.size(), 64U);
      ASSERT_EQ(limits.in_flight("a"), open.size());
      std::uint64_t held = 0;
      for (const Stream& s : open) held += s.reservation.tokens;
      if (app.kv_tokens > 0) {
        ASSERT_LE(held, app.kv_tokens);
      }
      if (app.tokens_per_minute > 0) {  // a full bucket, and what has come since
        ASSERT_LE(ever * 60'000, app.tokens_per_minute * (60'000 + static_cast<std::uint64_t>(ms)));
      }
    }
    for (const Stream& s : open) end(limits, s.reservation, s.computed ? s.prompt + s.generated : 0);
    EXPECT_EQ(limits.in_flight("a"), 0U);
    EXPECT_EQ(limits.used_on("a", day), today) << "to the token";
    app.in_flight = 1000;
    app.tokens_per_minute = app.kv_tokens = 0;
    const std::uint64_t left = app.tokens_per_day - today;
    if (left > 0) {
      EXPECT_EQ(limits.admit("a", app, {1, left, left + 5}, at(ms))->tokens, left);
    }
    EXPECT_FALSE(limits.admit("a", app, {1, 1, 1}, at(ms))) << "and not one token more";
  }
  EXPECT_EQ(most_open, 64U) << "the test must reach what it is about";
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(days_full, 3U) << "days whose budget was used up";
}

}  // namespace
}  // namespace flyball::route
