// Turns take one item of each owner in a round, each owner's in order.
#include "backends/round_robin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace flyball {
namespace {

struct Item {
  std::string owner;
  int number = 0;
};

void put(RoundRobin<Item>& turns, const std::string& owner, int number) {
  turns.put(owner, {owner, number});
}
std::string take_all(RoundRobin<Item>& turns) {
  std::string out;
  while (const auto item = turns.take()) out += item->owner + std::to_string(item->number) + ' ';
  return out;
}

TEST(RoundRobin, FloodWaitsItsTurn) {
  RoundRobin<Item> turns;
  for (int i = 0; i < 4; ++i) put(turns, "a", i);
  put(turns, "b", 0);
  put(turns, "b", 1);
  put(turns, "c", 0);
  EXPECT_EQ(turns.size(), 7U);
  EXPECT_EQ(take_all(turns), "a0 b0 c0 a1 b1 a2 a3 ");
  EXPECT_TRUE(turns.empty());
  EXPECT_FALSE(turns.take());
}

TEST(RoundRobin, NewcomerIsTheLastOfTheRound) {
  RoundRobin<Item> turns;
  put(turns, "a", 0);
  put(turns, "a", 1);
  EXPECT_EQ(turns.take()->number, 0);
  put(turns, "b", 0);
  EXPECT_EQ(take_all(turns), "a1 b0 ");
}

TEST(RoundRobin, RemovedItemTakesNoTurn) {
  RoundRobin<Item> turns;
  put(turns, "a", 0);
  put(turns, "a", 1);
  put(turns, "b", 0);
  const auto named = [](const char* owner, int number) {
    return [=](const Item& item) { return item.owner == owner && item.number == number; };
  };
  EXPECT_EQ(turns.remove(named("b", 0))->owner, "b");
  EXPECT_EQ(turns.remove(named("a", 0))->number, 0);
  EXPECT_FALSE(turns.remove(named("a", 0)));
  EXPECT_EQ(take_all(turns), "a1 ");
}

class Walk : public ::testing::TestWithParam<int> {};

// Whatever is put, taken and removed: nothing is lost, each owner's items come in order, and while an owner
// waits every other one is taken from at most once for each item of its own.
TEST_P(Walk, KeepsEachOwnersOrderAndStarvesNobody) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  RoundRobin<Item> turns;
  std::map<std::string, std::vector<int>> waiting;
  std::map<std::string, std::map<std::string, int>> since;  // by who waits: how often others were taken
  int next = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::string owner(1, static_cast<char>('a' + random() % 5));
    switch (random() % 5) {
      case 0:
      case 1:
        put(turns, owner, next);
        waiting[owner].push_back(next++);
        if (waiting[owner].size() == 1) since[owner].clear();
        break;
      case 2:
        if (auto& mine = waiting[owner]; !mine.empty()) {
          const int number = mine[random() % mine.size()];
          const auto removed = turns.remove([&](const Item& item) { return item.number == number; });
          ASSERT_TRUE(removed) << "seed " << GetParam();
          std::erase(mine, number);
        }
        break;
      default: {
        const auto item = turns.take();
        const bool any = std::ranges::any_of(waiting, [](const auto& w) { return !w.second.empty(); });
        ASSERT_EQ(item.has_value(), any) << "seed " << GetParam();
        if (!item) break;
        auto& mine = waiting[item->owner];
        ASSERT_EQ(mine.front(), item->number) << "seed " << GetParam();
        mine.erase(mine.begin());
        since[item->owner].clear();
        for (auto& [other, numbers] : waiting) {
          if (numbers.empty() || other == item->owner) continue;
          ASSERT_LE(++since[other][item->owner], 1) << "seed " << GetParam();
        }
      }
    }
  }
  std::size_t left = 0;
  for (const auto& [owner, numbers] : waiting) left += numbers.size();
  EXPECT_EQ(turns.size(), left);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Walk, ::testing::Range(1, 21),
                         [](const auto& test) { return "seed_" + std::to_string(test.param); });

}  // namespace
}  // namespace flyball
