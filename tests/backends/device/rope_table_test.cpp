// The rotation table against values computed by hand from the definitions of each scaling.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backends/device/rope_table.hpp"

namespace flyball::kernels::cpu {
namespace {

std::vector<float> table(const device::RopeTableArgs& args, std::uint32_t position) {
  std::vector<float> cos_sin(args.dim);
  device::RopeTable(args).rotation(position, cos_sin.data());
  return cos_sin;
}

TEST(RopeTable, Plain) {
  const auto t = table({.dim = 4, .base = 10000.0F}, 3);
  EXPECT_FLOAT_EQ(t[0], std::cos(3.0F));
  EXPECT_FLOAT_EQ(t[1], std::sin(3.0F));
  EXPECT_FLOAT_EQ(t[2], std::cos(0.03F));  // 10000^(-2/4) = 0.01
  EXPECT_FLOAT_EQ(t[3], std::sin(0.03F));
}

TEST(RopeTable, StillLayersHaveTheIdentityEverywhere) {
  EXPECT_EQ(table({.dim = 4, .attn_factor = 2.0F, .rotates = false}, 77), (std::vector<float>{1, 0, 1, 0}));
}

TEST(RopeTable, TemperatureGrowsByWholeLengths) {
  const device::RopeTableArgs plain{.dim = 4},
      warm{.dim = 4, .temperature_scale = 0.5F, .temperature_length = 8};
  EXPECT_EQ(table(warm, 7), table(plain, 7));
  for (const std::uint32_t position : {8U, 15U, 16U}) {
    const double grown = 1 + 0.5 * std::log(position < 16 ? 2.0 : 3.0);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(table(warm, position)[i], grown * table(plain, position)[i], 1e-6) << position;
  }
}

TEST(RopeTable, PositionZeroIsTheIdentity) {
  const auto t = table({.dim = 8, .base = 500000.0F, .factor = 4.0F}, 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(t[2 * i], 1.0F);
    EXPECT_EQ(t[2 * i + 1], 0.0F);
  }
}

TEST(RopeTable, LinearDividesPositions) {
  EXPECT_EQ(table({.dim = 16, .factor = 4.0F}, 40), table({.dim = 16}, 10));
}

TEST(RopeTable, FrequencyFactorsDivideFrequencies) {
  const float factors[] = {1.0F, 8.0F};
  const auto t = table({.dim = 4, .frequency_factors = factors}, 80);
  EXPECT_FLOAT_EQ(t[0], std::cos(80.0F));
  EXPECT_FLOAT_EQ(t[2], std::cos(0.1F));  // 80 * 0.01 / 8
}

TEST(RopeTable, YarnLeavesFastFrequenciesAndScalesSlowOnes) {
  const device::RopeTableArgs args{
      .dim = 128, .base = 10000.0F, .factor = 4.0F, .ext_factor = 1.0F, .original_context = 4096};
  const auto t = table(args, 1000);
  // Index of 32 rotations: 128 ln(4096 / (64 pi)) / (2 ln 10000) = 20.9, down to 20; of one: 45.03, up to 46.
  const double magnitude = 1.0 + 0.1 * std::log(4.0);
  const auto expect = [&](int i, double angle) {
    EXPECT_NEAR(t[2 * i], std::cos(angle) * magnitude, 1e-6) << i;
    EXPECT_NEAR(t[2 * i + 1], std::sin(angle) * magnitude, 1e-6) << i;
  };
  const auto unscaled = [](int i) { return 1000.0 * std::pow(10000.0, -i / 64.0); };
  expect(0, unscaled(0));
  expect(20, unscaled(20));
  expect(33, unscaled(33) * (0.5 + 0.5 / 4));  // halfway from 20 to 46
  expect(46, unscaled(46) / 4);
  expect(63, unscaled(63) / 4);
}

TEST(RopeTable, AttentionFactorScalesBoth) {
  const auto plain = table({.dim = 8}, 5);
  const auto scaled = table({.dim = 8, .attn_factor = 1.5F}, 5);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(scaled[i], 1.5F * plain[i], 1e-6);
}

}  // namespace
}  // namespace flyball::kernels::cpu
