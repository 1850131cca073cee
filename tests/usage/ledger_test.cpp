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
  EXPECT_EQ(ledger.take_changed(10).size(), 2U);
  EXPECT_FALSE(ledger.changed());
  ledger.change("a", 10).requests += 1;
  const auto rows = ledger.take_changed(10);
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
  EXPECT_EQ(ledger.take_changed(10)[0].usage.charged_tokens(), 124U);
}

TEST(Ledger, ForgetsOldDays) {
  Ledger ledger;
  ledger.change("a", 10).requests = 1;
  EXPECT_EQ(ledger.take_changed(10 + Ledger::kKeptDays).size(), 1U);
  EXPECT_NE(ledger.find("a", 10), nullptr);
  ledger.change("a", 11 + Ledger::kKeptDays).requests = 1;
  ledger.take_changed(11 + Ledger::kKeptDays);
  EXPECT_EQ(ledger.find("a", 10), nullptr);
}

}  // namespace
}  // namespace flyball::usage
