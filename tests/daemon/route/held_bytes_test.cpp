#include "daemon/route/held_bytes.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace flyball::route {
namespace {

TEST(HeldBytes, RefusesWhatPassesTheLimitAndKeepsTheShare) {
  HeldBytes held;
  auto share = held.share_of("a");
  EXPECT_TRUE(share.grow(60, 100));
  EXPECT_FALSE(share.grow(41, 100));
  EXPECT_EQ(share.bytes(), 60U);
  EXPECT_TRUE(share.grow(40, 100));
  EXPECT_EQ(held.held("a"), 100U);
  EXPECT_FALSE(share.grow(UINT64_MAX, UINT64_MAX));  // no wrap-around
}

TEST(HeldBytes, CountsEachAppAlone) {
  HeldBytes held;
  auto a = held.share_of("a"), b = held.share_of("b");
  EXPECT_TRUE(a.grow(100, 100));
  EXPECT_TRUE(b.grow(100, 100));
  EXPECT_FALSE(b.grow(1, 100));
}

TEST(HeldBytes, GivesBackWhenAShareEndsOrShrinks) {
  HeldBytes held;
  {
    auto share = held.share_of("a");
    ASSERT_TRUE(share.grow(80, 100));
    share.shrink_to(30);
    EXPECT_EQ(held.held("a"), 30U);
    const auto moved = std::move(share);
    EXPECT_EQ(moved.bytes(), 30U);
    EXPECT_EQ(held.held("a"), 30U);
  }
  EXPECT_EQ(held.held("a"), 0U);
}

TEST(HeldBytes, ALowerLimitAfterAReloadLetsNothingMoreIn) {
  HeldBytes held;
  auto share = held.share_of("a");
  ASSERT_TRUE(share.grow(80, 100));
  EXPECT_FALSE(share.grow(1, 50));
  EXPECT_EQ(held.held("a"), 80U);
}

}  // namespace
}  // namespace flyball::route
