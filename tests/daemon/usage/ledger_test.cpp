// Days of apps: what is handed out to be stored, and what is forgotten.
#include "daemon/usage/ledger.hpp"

#include <gtest/gtest.h>

namespace flyball::usage {
namespace {

TEST(Ledger, HandsOutWhatChangedAsWholeRows) {
  Ledger ledger;
  EXPECT_FALSE(ledger.changed());
  ledger.change("a", 10).requests = 3;
  ledger.change("b", 10).prompt_tokens = 5;
  EXPECT_TRUE(ledger.changed());
  EXPECT_EQ(ledger.take_changed().size(), 2U);
  EXPECT_FALSE(ledger.changed());
  ledger.change("a", 10).requests += 1;
  const auto rows = ledger.take_changed();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].app, "a");
  EXPECT_EQ(rows[0].usage.requests, 4U) << "not what was added alone";
}

TEST(Ledger, GoesOnWithWhatWasStored) {
  Ledger ledger;
  DayUsage before;
  before.prompt_tokens = 100;
  before.generated_tokens = 20;
  before.guessed_tokens = 3;
  ledger.restore({"a", 10, before});
  EXPECT_FALSE(ledger.changed());
  ledger.change("a", 10).generated_tokens += 1;
  EXPECT_EQ(ledger.take_changed()[0].usage.charged_tokens(), 124U);
}

TEST(Ledger, ForgetsOldDays) {
  Ledger ledger;
  for (std::int64_t day = 10; day <= 10 + Ledger::kKeptDays; ++day) ledger.change("a", day).requests = 1;
  EXPECT_EQ(ledger.take_changed().size(), 1U + Ledger::kKeptDays);
  EXPECT_NE(ledger.find("a", 10), nullptr);
  ledger.change("a", 11 + Ledger::kKeptDays).requests = 1;
  ledger.take_changed();
  EXPECT_EQ(ledger.find("a", 10), nullptr);
  EXPECT_NE(ledger.find("a", 11), nullptr);
}

// What is stored replaces the row: a day that is forgotten and comes back would begin anew there.
TEST(Ledger, AVisitToTheFutureForgetsNoDay) {
  Ledger ledger;
  ledger.change("a", 10).requests = 5;
  ledger.take_changed();
  ledger.change("a", 5000).requests = 1;
  ledger.take_changed();
  ledger.change("a", 10).requests += 1;
  EXPECT_EQ(ledger.take_changed().at(0).usage.requests, 6U);
}

TEST(Ledger, WhatIsPutBackIsHandedOutAgainAsItIsByThen) {
  Ledger ledger;
  ledger.change("a", 10).requests = 5;
  ledger.change("b", 10).requests = 7;
  const auto rows = ledger.take_changed();
  ledger.change("b", 10).requests += 1;
  ledger.put_back(rows);
  const auto again = ledger.take_changed();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].usage.requests, 5U);
  EXPECT_EQ(again[1].usage.requests, 8U);
}

}  // namespace
}  // namespace flyball::usage
