// Fork-join: every index once, results visible, also after the workers fell asleep.
#include "backends/device/thread_pool.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <numeric>

namespace flyball::cpu {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (const std::uint32_t threads : {1U, 2U, 4U}) {
    device::ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    std::vector<std::uint32_t> hits(777);
    for (std::uint32_t round = 0; round < 3000; ++round) {
      const std::uint32_t n = round % 19;
      pool.for_each(n, [&](std::uint32_t i) { ++hits[i]; });
    }
    pool.for_each(777, [&](std::uint32_t i) { ++hits[i]; });
    std::uint32_t expected = 1;
    for (std::uint32_t round = 0; round < 3000; ++round) expected += round % 19;
    EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0U), expected - 1 + 777);
    EXPECT_EQ(hits[776], 1U);
  }
}

TEST(ThreadPool, WhatOneRegionWritesTheNextReads) {
  device::ThreadPool pool(2);
  std::vector<std::uint64_t> a(64, 1), b(64, 0);
  for (int round = 0; round < 2000; ++round) {
    pool.for_each(64, [&](std::uint32_t i) { b[i] = a[(i + 13) % 64] + 1; });
    pool.for_each(64, [&](std::uint32_t i) { a[i] = b[(i + 7) % 64]; });
  }
  for (const std::uint64_t v : a) EXPECT_EQ(v, 2001U);
}

TEST(ThreadPool, WakesSleepingWorkers) {
  device::ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than they spin
    std::atomic<int> sum{0};
    pool.for_each(100, [&](std::uint32_t i) { sum += static_cast<int>(i); });
    EXPECT_EQ(sum.load(), 4950);
  }
}

TEST(ThreadPool, MakesDoWithTheThreadsItGets) {
  pthread_attr_t before, greedy;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, std::size_t{1} << 50), 0);  // no address space has this
  ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
  {
    device::ThreadPool pool(3);
    EXPECT_EQ(pool.size(), 1U);
    std::uint32_t sum = 0;
    pool.for_each(10, [&](std::uint32_t i) { sum += i; });
    EXPECT_EQ(sum, 45U);
  }
  pthread_setattr_default_np(&before);
  pthread_attr_destroy(&greedy);
  pthread_attr_destroy(&before);
}

TEST(ThreadPool, KnowsHowManyProcessorsItMayUse) {
  EXPECT_GE(device::usable_processors(), 1U);
}

}  // namespace
}  // namespace flyball::cpu
