#include "daemon/api/refusal_log.hpp"

#include <gtest/gtest.h>

namespace flyball::testing {
namespace {

using api::RefusalLog;
using std::chrono::milliseconds;

struct RefusalLogTest : ::testing::Test {
  RefusalLog log;
  RefusalLog::TimePoint now{std::chrono::seconds(100)};
};

TEST_F(RefusalLogTest, LogsTheFirstOfASecondAndCountsTheRest) {
  EXPECT_FALSE(log.next_end());
  EXPECT_TRUE(log.whole("a", ErrorCode::rate_limited, now));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(log.whole("a", ErrorCode::rate_limited, now + milliseconds(999)));
  EXPECT_EQ(log.next_end(), now + milliseconds(1000));
  EXPECT_TRUE(log.ended(now + milliseconds(999)).empty());
  const auto ended = log.ended(now + milliseconds(1000));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].app, "a");
  EXPECT_EQ(ended[0].code, ErrorCode::rate_limited);
  EXPECT_EQ(ended[0].count, 5U);
  EXPECT_TRUE(log.ended(now + milliseconds(5000)).empty());
  EXPECT_TRUE(log.whole("a", ErrorCode::rate_limited, now + milliseconds(1000)));
}

TEST_F(RefusalLogTest, KeepsAppsAndCodesApart) {
  EXPECT_TRUE(log.whole("a", ErrorCode::rate_limited, now));
  EXPECT_TRUE(log.whole("b", ErrorCode::rate_limited, now));
  EXPECT_TRUE(log.whole("a", ErrorCode::overloaded, now));
  EXPECT_FALSE(log.whole("b", ErrorCode::rate_limited, now));
  const auto ended = log.ended(now + milliseconds(1000));
  ASSERT_EQ(ended.size(), 1U);  // one that came alone is told whole already
  EXPECT_EQ(ended[0].app, "b");
}

TEST_F(RefusalLogTest, ASpanEndsInItsOwnTime) {
  EXPECT_TRUE(log.whole("a", ErrorCode::rate_limited, now));
  EXPECT_TRUE(log.whole("b", ErrorCode::rate_limited, now + milliseconds(400)));
  EXPECT_FALSE(log.whole("b", ErrorCode::rate_limited, now + milliseconds(500)));
  EXPECT_TRUE(log.ended(now + milliseconds(1000)).empty());
  EXPECT_EQ(log.next_end(), now + milliseconds(1400));
  EXPECT_EQ(log.ended(now + milliseconds(1400)).size(), 1U);
}

TEST_F(RefusalLogTest, CountsFurtherAppsTogetherWhereThereAreTooMany) {
  for (std::size_t i = 0; i < RefusalLog::kMaxKeys; ++i)
    EXPECT_TRUE(log.whole(std::to_string(i), ErrorCode::rate_limited, now));
  EXPECT_TRUE(log.whole("one more", ErrorCode::rate_limited, now));
  for (int i = 0; i < 1000; ++i)
    EXPECT_FALSE(log.whole("more " + std::to_string(i), ErrorCode::rate_limited, now));
  const auto ended = log.ended(now + milliseconds(1000));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].app, RefusalLog::kOtherApps);
  EXPECT_EQ(ended[0].count, 1000U);
}

}  // namespace
}  // namespace flyball::testing
