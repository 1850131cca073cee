// Days of apps: what is handed out to be stored, and what is forgotten.
#include "daemon/usage/daily_usage.hpp"

#include <gtest/gtest.h>

namespace flyball::usage {
namespace {

TEST(DailyUsage, HandsOutWhatChangedAsWholeRows) {
  DailyUsage usage;
  EXPECT_FALSE(usage.changed());
  usage.change("a", 10).requests = 3;
  usage.change("b", 10).prompt_tokens = 5;
  EXPECT_TRUE(usage.changed());
  EXPECT_EQ(usage.take_changed().size(), 2U);
  EXPECT_FALSE(usage.changed());
  usage.change("a", 10).requests += 1;
  const auto rows = usage.take_changed();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].app, "a");
  EXPECT_EQ(rows[0].usage.requests, 4U) << "not what was added alone";
}

TEST(DailyUsage, GoesOnWithWhatWasStored) {
  DailyUsage usage;
  DayUsage before;
  before.prompt_tokens = 100;
  before.generated_tokens = 20;
  before.guessed_tokens = 3;
  usage.restore({"a", 10, before});
  EXPECT_FALSE(usage.changed());
  usage.change("a", 10).generated_tokens += 1;
  EXPECT_EQ(usage.take_changed()[0].usage.charged_tokens(), 124U);
}

TEST(DailyUsage, ForgetsOldDays) {
  DailyUsage usage;
  for (std::int64_t day = 10; day <= 10 + DailyUsage::kKeptDays; ++day) usage.change("a", day).requests = 1;
  EXPECT_EQ(usage.take_changed().size(), 1U + DailyUsage::kKeptDays);
  EXPECT_NE(usage.find("a", 10), nullptr);
  usage.change("a", 11 + DailyUsage::kKeptDays).requests = 1;
  usage.take_changed();
  EXPECT_EQ(usage.find("a", 10), nullptr);
  EXPECT_NE(usage.find("a", 11), nullptr);
}

// What is stored replaces the row: a day that is forgotten and comes back would begin anew there.
TEST(DailyUsage, AVisitToTheFutureForgetsNoDay) {
  DailyUsage usage;
  usage.change("a", 10).requests = 5;
  usage.take_changed();
  usage.change("a", 5000).requests = 1;
  usage.take_changed();
  usage.change("a", 10).requests += 1;
  EXPECT_EQ(usage.take_changed().at(0).usage.requests, 6U);
}

TEST(DailyUsage, WhatIsPutBackIsHandedOutAgainAsItIsByThen) {
  DailyUsage usage;
  usage.change("a", 10).requests = 5;
  usage.change("b", 10).requests = 7;
  const auto rows = usage.take_changed();
  usage.change("b", 10).requests += 1;
  usage.put_back(rows);
  const auto again = usage.take_changed();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].usage.requests, 5U);
  EXPECT_EQ(again[1].usage.requests, 8U);
}

}  // namespace
}  // namespace flyball::usage
