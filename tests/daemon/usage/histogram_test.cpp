// Lengths in classes: what a percentile is off by, and the way to the store and back.
#include "daemon/usage/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace flyball::usage {
namespace {

TEST(Histogram, SmallValuesAreExact) {
  Histogram h;
  EXPECT_EQ(h.quantile(0.5), 0U);
  for (const std::uint64_t n : {0, 1, 1, 2, 7}) h.add(n);
  EXPECT_EQ(h.quantile(0), 0U);
  EXPECT_EQ(h.quantile(0.5), 1U);
  EXPECT_EQ(h.quantile(1), 7U);
}

TEST(Histogram, PercentilesAreAtMostAFifthTooMuch) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Histogram h;
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 5000; ++i) {
      all.push_back(random() >> (40 + random() % 24));
      h.add(all.back());
    }
    std::ranges::sort(all);
    for (const double q : {0.01, 0.25, 0.5, 0.95, 0.99}) {
      const std::uint64_t exact = all[static_cast<std::size_t>(std::max(0.0, q * 5000 - 1))];
      EXPECT_GE(h.quantile(q), exact) << q;
      EXPECT_LE(static_cast<double>(h.quantile(q)), 1.25 * static_cast<double>(exact) + 1) << q;
    }
  }
}

TEST(Histogram, HugeValuesShareTheLastClass) {
  Histogram h;
  h.add(UINT64_MAX);
  h.add(1ULL << 40);
  EXPECT_EQ(h.count(), 2U);
  EXPECT_GE(h.quantile(0.5), 1U << 25);
}

TEST(Histogram, ComesBackFromItsText) {
  Histogram h;
  for (const std::uint64_t n : {3, 3, 900, 100'000}) h.add(n);
  const Histogram back = Histogram::from(h.text());
  EXPECT_EQ(back.text(), h.text());
  EXPECT_EQ(back.count(), 4U);
  EXPECT_EQ(back.quantile(0.5), 3U);
  Histogram sum = back;
  sum += h;
  EXPECT_EQ(sum.count(), 8U);
  EXPECT_EQ(Histogram::from("").count(), 0U);
  for (const char* wrong : {"x", "3", "3:", "3:x", "3:1,4:1", "97:1", "-1:2", "3:99999999999999999999"})
    EXPECT_EQ(Histogram::from(wrong).count(), 0U) << wrong;
}

}  // namespace
}  // namespace flyball::usage
