// Whose turn it is: shares by weight, the bound on what two backlogged apps' services differ by, no saving
// up, and the last slot for who has nothing running. Random arrivals, seeds printed.
#include "daemon/route/fair_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace flyball::route {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(FairQueue, OneAppIsServedInOrder) {
  FairQueue q;
  q.set_slots(2);
  for (FairQueue::Id id = 1; id <= 4; ++id) q.add(id, "a", 1, 10);
  EXPECT_THAT(q.next(), Optional(Eq(1U)));
  EXPECT_THAT(q.next(), Optional(Eq(2U)));
  EXPECT_EQ(q.next(), std::nullopt);
  EXPECT_EQ(q.ahead_of(4), 1U);
  q.remove(1);
  EXPECT_THAT(q.next(), Optional(Eq(3U)));
  q.remove(4);
  q.remove(4);
  q.remove(2);
  EXPECT_EQ(q.next(), std::nullopt);
  EXPECT_EQ(q.running(), 1U);
  EXPECT_EQ(q.waiting(), 0U);
}

TEST(FairQueue, AnAppsOlderRequestGoesFirstHoweverLateItIsAdded) {
  FairQueue q;
  q.set_slots(1);
  q.add(10, "a", 1, 10);
  ASSERT_THAT(q.next(), Optional(Eq(10U)));
  q.add(11, "a", 1, 10);
  q.add(5, "a", 1, 10);
  EXPECT_EQ(q.ahead_of(5), 0U);
  EXPECT_EQ(q.ahead_of(11), 1U);
  q.remove(10);
  EXPECT_THAT(q.next(), Optional(Eq(5U)));
}

TEST(FairQueue, WhoHadLessGoesFirst) {
  FairQueue q;
  q.set_slots(1);
  q.add(1, "a", 1, 100);
  q.add(2, "a", 1, 100);
  q.add(3, "b", 1, 100);
  EXPECT_THAT(q.next(), Optional(Eq(1U)));
  q.generated(1, 50);
  EXPECT_EQ(q.counter("a"), 200);
  q.settle(1, 120);
  EXPECT_EQ(q.counter("a"), 220) << "the estimate made good";
  q.remove(1);
  EXPECT_THAT(q.next(), Optional(Eq(3U)));
}

// Otherwise who slept for a day could flood for a day.
TEST(FairQueue, NobodySavesUp) {
  FairQueue q;
  q.set_slots(1);
  for (FairQueue::Id id = 1; id <= 20; ++id) q.add(id, "busy", 1, 100);
  for (FairQueue::Id id = 1; id <= 10; ++id) {
    ASSERT_THAT(q.next(), Optional(Eq(id)));
    q.remove(id);
  }
  for (FairQueue::Id id = 21; id <= 40; ++id) q.add(id, "back", 1, 100);
  int back = 0;
  for (int i = 0; i < 10; ++i) {
    const auto id = q.next();
    ASSERT_TRUE(id);
    back += *id > 20 ? 1 : 0;
    q.remove(*id);
  }
  EXPECT_EQ(back, 5);
}

TEST(FairQueue, TheLastSlotIsForWhoHasNothingRunningWhereOthersCome) {
  FairQueue q;
  q.set_slots(4);
  FairQueue::Id id = 0;
  const auto flood = [&] { q.add(++id, "flood", 1, 1); };
  for (int i = 0; i < 10; ++i) flood();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(q.next()) << "nobody else came yet";
  q.add(100, "light", 1, 1);
  EXPECT_THAT(q.next(), Optional(Eq(100U))) << "beside all of them";
  q.remove(1);
  EXPECT_EQ(q.next(), std::nullopt);
  q.remove(100);
  EXPECT_EQ(q.next(), std::nullopt) << "the light app may come again";
  q.add(101, "light", 1, 1000);
  EXPECT_THAT(q.next(), Optional(Eq(101U)));
  q.add(102, "light", 1, 1);
  q.remove(2);
  EXPECT_EQ(q.next(), std::nullopt) << "both have something running";
  q.remove(101);
  q.remove(102);
  id = 200;
  for (std::uint64_t begun = 0; begun <= kRemembered; ++begun) {
    flood();
    while (const auto next = q.next()) q.remove(*next);
  }
  for (int i = 0; i < 10; ++i) flood();
  while (q.next()) continue;
  EXPECT_EQ(q.running(), 4U) << "it did not come again for long";

  FairQueue single;
  single.set_slots(1);
  single.add(1, "a", 1, 1);
  single.add(2, "b", 1, 1);
  EXPECT_TRUE(single.next());
  single.remove(1);
  EXPECT_TRUE(single.next()) << "an engine of one slot is of use to any";
}

// Nobody had come before, so no slot was kept.
TEST(FairQueue, WhoHasNothingRunningWaitsForNoSlotOfAFlood) {
  FairQueue q;
  q.set_slots(3);
  for (FairQueue::Id id = 1; id <= 6; ++id) q.add(id, "flood", 1, 1);
  while (q.next()) continue;
  q.add(10, "light", 1, 1);
  q.add(11, "light", 1, 1);
  q.add(12, "another", 1, 1);
  EXPECT_THAT(q.next(), Optional(Eq(10U)));
  EXPECT_EQ(q.next(), std::nullopt) << "one at a time";
  q.remove(10);
  EXPECT_THAT(q.next(), Optional(Eq(12U)));
  q.remove(1);
  EXPECT_THAT(q.next(), Optional(Eq(11U)));
  q.remove(2);
  q.remove(3);
  while (q.next()) continue;
  EXPECT_EQ(q.running(), 3U) << "light, another, and one of the flood: nobody has several";
  q.add(20, "third", 1, 1);
  EXPECT_EQ(q.next(), std::nullopt);

  q.generated(11, static_cast<std::uint64_t>(kMostLead));
  q.remove(11);
  q.remove(12);
  q.remove(20);
  while (q.next()) continue;
  q.add(30, "light", 1, 1);
  EXPECT_EQ(q.next(), std::nullopt) << "it has had more than its share";
}

TEST(FairQueue, AnAnswerThatGoesOnTakesASlotAtOnce) {
  FairQueue q;
  q.set_slots(1);
  q.add(1, "a", 1, 1);
  EXPECT_TRUE(q.next());
  q.begin(2, "b", 1, 5);
  EXPECT_EQ(q.running(), 2U);
  q.add(3, "a", 1, 1);
  q.remove(1);
  EXPECT_EQ(q.next(), std::nullopt);
  q.remove(2);
  EXPECT_THAT(q.next(), Optional(Eq(3U)));
}

// An app that was away, and one that was never there, begins with what the last one has had by now, running
// requests included: it has not saved up.
TEST(FairQueue, WhoComesToAnIdleLineHasSavedNothing) {
  FairQueue q;
  q.set_slots(4);
  q.add(1, "a", 1, 30'000);
  EXPECT_TRUE(q.next());
  q.generated(1, 1000);
  q.add(2, "b", 1, 10);
  EXPECT_EQ(q.counter("b"), q.counter("a"));
  EXPECT_EQ(q.counter("b"), 32'000);
}

TEST(FairQueue, WhatWasNotComputedIsPaidBack) {
  FairQueue q;
  q.add(1, "a", 0.5, 100);
  EXPECT_TRUE(q.next());
  EXPECT_EQ(q.counter("a"), 200);
  q.settle(1, 0);
  EXPECT_EQ(q.counter("a"), 0);
  q.remove(1);
  EXPECT_EQ(q.counter("a"), 0);
}

// The paper's theorem 4.4: of two apps that are backlogged all the while, what they are served differs by at
// most 2 * max(w_p * longest prompt, w_q * tokens that the running ones may generate), here at every step,
// and by the test's own count. Weighted: of service divided by weight, the bound by the lighter one's.
// Prompts that turn out shorter than estimated, and a slot that is kept free, add what may be charged or
// taken at once.
TEST(FairQueue, ServiceOfBackloggedAppsStaysWithinTheBound) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    constexpr int kLongestPrompt = 500, kLongestAnswer = 200;
    const auto slots = static_cast<std::uint32_t>(draw(1, 8));
    FairQueue q;
    q.set_slots(slots);
    struct AppUnderTest {
      std::string name;
      double weight, served = 0;  // tokens, weighted by their kind
      int prompt, answer;
    };
    std::vector<AppUnderTest> apps;
    for (int i = 0; i < 4; ++i)
      apps.push_back({"app" + std::to_string(i), i == 3 ? 0.25 : 1.0, 0, draw(1, kLongestPrompt),
                      draw(1, kLongestAnswer)});
    struct Running {
      FairQueue::Id id;
      std::size_t app;
      int left, prompt;
      bool settled;
    };
    std::vector<Running> running;
    struct Waiting {
      std::size_t app;
      int prompt;
    };
    std::map<FairQueue::Id, Waiting> waiting;
    FairQueue::Id id = 0;
    const auto submit = [&](std::size_t i) {
      waiting[++id] = {i, draw(1, apps[i].prompt)};
      q.add(id, apps[i].name, apps[i].weight, waiting[id].prompt);
    };
    for (std::size_t i = 0; i < apps.size(); ++i)
      for (int k = 0; k < 20; ++k) submit(i);
    const auto bound = [&](const AppUnderTest& a, const AppUnderTest& b) {
      const double unit = std::max<double>(FairQueue::kPromptToken * kLongestPrompt * slots,
                                           FairQueue::kGeneratedToken * kLongestAnswer * slots);
      return 2 * unit / std::min(a.weight, b.weight) + (slots > 1 ? kMostLead : 0);
    };
    for (int step = 0; step < 60'000; ++step) {
      while (const auto begun = q.next()) {
        const Waiting w = waiting.extract(*begun).mapped();
        running.push_back({*begun, w.app, draw(1, apps[w.app].answer), w.prompt, false});
        submit(w.app);  // always backlogged
      }
      for (std::size_t i = running.size(); i-- > 0;) {
        Running& r = running[i];
        AppUnderTest& app = apps[r.app];
        if (!std::exchange(r.settled, true)) {  // part of it was cached
          const int computed = draw(0, r.prompt);
          q.settle(r.id, computed);
          app.served += FairQueue::kPromptToken * computed;
        }
        q.generated(r.id, 1);
        app.served += FairQueue::kGeneratedToken;
        if (--r.left > 0) continue;
        q.remove(r.id);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
      for (const auto& a : apps)
        for (const auto& b : apps)
          ASSERT_LE(a.served / a.weight - b.served / b.weight, bound(a, b))
              << a.name << " before " << b.name << " at step " << step;
    }
    // It was long enough for one to run away: each has had many times the bound.
    for (const auto& a : apps) EXPECT_GT(a.served / a.weight, 2 * bound(a, a)) << a.name;
  }
}

// Apps come and go, requests leave while they wait, counts stay right, nobody starves.
TEST(FairQueue, RandomLives) {
  for (const unsigned seed : {11U, 12U, 13U, 14U, 15U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    FairQueue q;
    q.set_slots(3);
    std::vector<FairQueue::Id> waiting, running;
    std::map<FairQueue::Id, int> since;
    FairQueue::Id id = 0;
    for (int step = 0; step < 20'000; ++step) {
      if (draw(0, 3) == 0 && waiting.size() < 50) {
        q.add(++id, "app" + std::to_string(draw(0, 4)), 1, draw(1, 100));
        waiting.push_back(id);
        since[id] = step;
      }
      if (!waiting.empty() && draw(0, 40) == 0) {
        const auto i = static_cast<std::size_t>(draw(0, static_cast<int>(waiting.size()) - 1));
        q.remove(waiting[i]);
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
      }
      while (const auto begun = q.next()) {
        ASSERT_EQ(std::erase(waiting, *begun), 1U);
        EXPECT_LT(step - since[*begun], 2000) << "waited too long";
        running.push_back(*begun);
      }
      for (const auto r : running) q.generated(r, 1);
      if (!running.empty() && draw(0, 3) == 0) {
        const auto i = static_cast<std::size_t>(draw(0, static_cast<int>(running.size()) - 1));
        q.remove(running[i]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
      ASSERT_EQ(q.waiting(), waiting.size());
      ASSERT_EQ(q.running(), running.size());
      ASSERT_LE(running.size(), 4U) << "the slots, and one beside all of them";
      for (const auto w : waiting) ASSERT_TRUE(q.waits(w));
    }
    EXPECT_GT(id, 1000U);
  }
}

// Interactive work floods with more than there is room for, all the time; batch work has a quarter of its
// weight. It gets its fifth, and no answer of it waits for ever.
TEST(FairQueue, BatchWorkIsNeverStarved) {
  for (const unsigned seed : {21U, 22U, 23U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    FairQueue q;
    q.set_slots(8);
    struct Running {
      FairQueue::Id id;
      bool batch;
      int left;
    };
    std::vector<Running> running;
    std::map<FairQueue::Id, int> batch_since;
    FairQueue::Id id = 0;
    double served[2] = {0, 0};  // interactive, batch
    int longest_wait = 0;
    for (int i = 0; i < 4; ++i) {
      q.add(++id, "batch", 0.25, 400);
      batch_since[id] = 0;
    }
    for (int step = 0; step < 50'000; ++step) {
      while (q.waiting() < 60) q.add(++id, "chat", 1, draw(1, 200));
      while (const auto begun = q.next()) {
        const auto it = batch_since.find(*begun);
        const bool batch = it != batch_since.end();
        if (batch) {
          longest_wait = std::max(longest_wait, step - it->second);
          batch_since.erase(it);
          q.add(++id, "batch", 0.25, 400);
          batch_since[id] = step;
        }
        served[batch] += batch ? 400 : 100;
        running.push_back({*begun, batch, draw(1, batch ? 200 : 60)});
      }
      for (std::size_t i = running.size(); i-- > 0;) {
        q.generated(running[i].id, 1);
        served[running[i].batch] += FairQueue::kGeneratedToken;
        if (--running[i].left > 0) continue;
        q.remove(running[i].id);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    EXPECT_NEAR(served[1] / (served[0] + served[1]), 0.2, 0.02);
    EXPECT_LT(longest_wait, 2000) << "steps";
    EXPECT_GT(q.widest_gap(), 0);
    EXPECT_LE(q.widest_gap(), 2 * 8 * FairQueue::kGeneratedToken * 200 / 0.25 + kMostLead);
  }
}

}  // namespace
}  // namespace flyball::route
