// One test of each outcome, for outcomes.sh to run by name.
#include <gtest/gtest.h>

#include <cstdio>

TEST(Outcome, Passes) {}

TEST(Outcome, Skips) {
  GTEST_SKIP() << "as asked";
}

TEST(Outcome, FailsWithTheWordsOfASkip) {
  std::puts("[  SKIPPED ] says its output");
  FAIL() << "as asked";
}

class SkippedSuite : public testing::Test {
 protected:
  void SetUp() override { GTEST_SKIP() << "the whole suite"; }
};
TEST_F(SkippedSuite, First) {}
TEST_F(SkippedSuite, Second) {}
