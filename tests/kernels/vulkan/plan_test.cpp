// Plans alone: what may not run on a software device whose driver ends loops after 65,535 turns, without a
// word.
#include <gtest/gtest.h>

#include "backends/vulkan/matmul_plan.hpp"

namespace flyball::vulkan::test {
namespace {

DeviceFacts llvmpipe() {
  DeviceFacts facts;
  facts.processor = true;
  facts.subgroup_size = 8;
  facts.max_work_group = 1024;
  facts.texel_bytes = facts.storage_bytes = std::uint64_t{1} << 31;
  return facts;
}

TEST(VulkanPlans, TilesAreUnrolledWhereLoopsWouldEndEarly) {
  const auto plan = [](const DeviceFacts& facts, std::uint64_t positions) {
    return plan_attend(facts, 64, 8, 16, positions);
  };
  // A split of 256 has 32 tiles of 19 turns and 4 of its own.
  EXPECT_FALSE(plan(llvmpipe(), 27'392).unrolled);
  EXPECT_EQ(plan(llvmpipe(), 27'392).most_positions, 27'392U);
  EXPECT_TRUE(plan(llvmpipe(), 27'393).unrolled);
  // Unrolled it has 32 and 4; longer sequences have longer splits.
  EXPECT_EQ(plan(llvmpipe(), 131'072).most_positions, 465'920U);
  EXPECT_LT(plan(llvmpipe(), 1'000'000).most_positions, 1'000'000U) << "and then it is an error";
  // Splits are merged for as many dimensions at a time as there are lanes.
  DeviceFacts narrow = llvmpipe();
  narrow.subgroup_size = 4;
  EXPECT_LT(plan_attend(narrow, 512, 8, 16, 140'000).most_positions, 140'000U);
  EXPECT_GE(plan_attend(narrow, 256, 8, 16, 140'000).most_positions, 140'000U);
  DeviceFacts gpu = llvmpipe();
  gpu.processor = false;
  EXPECT_FALSE(plan(gpu, 1'000'000).unrolled);
  EXPECT_GE(plan(gpu, 1'000'000).most_positions, 1'000'000U);
}

TEST(VulkanPlans, ExpertsAreForStepsWhoseLoopsDoNotEndEarly) {
  EXPECT_TRUE(experts_can_do(llvmpipe(), 256, 8, 128, 2048));
  EXPECT_FALSE(experts_can_do(llvmpipe(), 2048, 8, 128, 2048)) << "pairs of all rows, twice for two experts";
  EXPECT_TRUE(experts_can_do(llvmpipe(), 256, 2, 8, 14'336));
  EXPECT_FALSE(experts_can_do(llvmpipe(), 4096, 2, 8, 14'336)) << "all rows may choose one expert";
  DeviceFacts gpu = llvmpipe();
  gpu.processor = false;
  EXPECT_TRUE(experts_can_do(gpu, 4096, 8, 128, 14'336));
}

TEST(VulkanPlans, PanelsAreForRowsWhoseLoopsDoNotEndEarly) {
  const auto panel = [](std::uint32_t cols, std::uint32_t n) {
    return plan_texel_panel(llvmpipe(), kernels::DType::q8_0, 32, cols, n, 0, 0).has_value();
  };
  EXPECT_TRUE(panel(504 * 128, 256));
  EXPECT_FALSE(panel(505 * 128, 256)) << "505 panels of 128 tokens and 2 turns more";
  EXPECT_TRUE(panel(505 * 128, 64));
}

}  // namespace
}  // namespace flyball::vulkan::test
