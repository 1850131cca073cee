// The KV books: blocks are counted, tables grow all or nothing, everything balances.
#include "backends/kv/kv_accountant.hpp"

#include <gtest/gtest.h>

#include <set>

namespace flyball::kv {
namespace {

TEST(BlockPool, HandsOutEachBlockOnceUntilNoneIsLeft) {
  BlockPool pool(3);
  std::set<BlockId> ids;
  for (int i = 0; i < 3; ++i) ids.insert(pool.acquire().value());
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_FALSE(pool.acquire().has_value());
  EXPECT_EQ(pool.used(), 3U);
  EXPECT_TRUE(pool.balanced());
}

TEST(BlockPool, ABlockIsFreeWhenTheLastHolderLetsGo) {
  BlockPool pool(1);
  const BlockId id = pool.acquire().value();
  pool.retain(id);
  pool.release(id);
  EXPECT_EQ(pool.free(), 0U);
  pool.release(id);
  EXPECT_EQ(pool.free(), 1U);
  EXPECT_TRUE(pool.balanced());
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockIsABrokenInvariant) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.release(0), "");
}

TEST(KvAccountant, GrowsAllOrNothing) {
  KvAccountant kv(4, 16);
  EXPECT_TRUE(kv.grow(1, 17));
  EXPECT_EQ(kv.table(1).size(), 2U);
  EXPECT_EQ(kv.blocks_missing(1, 32), 0U);
  EXPECT_EQ(kv.blocks_missing(1, 33), 1U);
  EXPECT_FALSE(kv.grow(2, 33));
  EXPECT_TRUE(kv.table(2).empty());
  EXPECT_EQ(kv.free(), 2U);
  EXPECT_TRUE(kv.grow(2, 32));
  EXPECT_EQ(kv.free(), 0U);
  EXPECT_TRUE(kv.balanced());
  kv.release(1);
  EXPECT_EQ(kv.free(), 2U);
  kv.release(7);  // holds nothing
  EXPECT_TRUE(kv.balanced());
}

TEST(KvAccountant, GrowingKeepsTheBlocksItHas) {
  KvAccountant kv(4, 2);
  ASSERT_TRUE(kv.grow(1, 3));
  const std::vector<BlockId> before(kv.table(1).begin(), kv.table(1).end());
  ASSERT_TRUE(kv.grow(1, 7));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), kv.table(1).begin()));
  EXPECT_EQ(kv.table(1).size(), 4U);
}

}  // namespace
}  // namespace flyball::kv
