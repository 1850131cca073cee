// Plans alone: which kernels are for what, and what may not run on a software device, whose driver ends loops
// after 65,535 turns without a word.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/matmul_plan.hpp"

namespace flyball::vulkan::test {
namespace {

using kernels::DType;

DeviceFacts llvmpipe() {
  DeviceFacts facts;
  facts.processor = true;
  facts.subgroup_size = 8;
  facts.max_work_group = 1024;
  facts.texel_bytes = facts.storage_bytes = std::uint64_t{1} << 31;
  return facts;
}

TEST(VulkanPlan, TexelsOnlyWhereTheyReach) {
  DeviceFacts device = llvmpipe();
  const std::uint32_t rows = 1000, cols = 1024;
  const std::uint64_t at = 4096, bytes = std::uint64_t{rows} * cols * 2;
  for (const auto& [reach, found] :
       {std::pair(std::uint64_t{0}, false), std::pair(at + bytes - 1, false), std::pair(at + bytes, true)}) {
    device.texel_bytes = reach;
    EXPECT_EQ(plan_texel_matmul(device, DType::f16, {&rows, 1}, cols, 1, {&at, 1}).has_value(), found);
  }
  EXPECT_FALSE(plan_texel_matmul(device, DType::q6_k, {&rows, 1}, cols, 1, {&at, 1}));
  const std::uint64_t odd_at = at + 1;  // as MLX's tensors may lie: no texel is read by halves of 16 bits
  device.texel_bytes = 2 * (at + bytes);
  EXPECT_TRUE(plan_texel_matmul(device, DType::f16, {&rows, 1}, cols, 1, {&at, 1}));
  EXPECT_FALSE(plan_texel_matmul(device, DType::f16, {&rows, 1}, cols, 1, {&odd_at, 1}));
  const std::uint32_t odd = 1000;
  EXPECT_FALSE(plan_texel_matmul(device, DType::f16, {&rows, 1}, odd, 1, {&at, 1}));
}

// One token's blocks are read by as many as keep the first bytes of what follows where rows' are.
TEST(VulkanPlan, OneTokenReadsWholeTexels) {
  const DeviceFacts device = llvmpipe();
  const std::uint32_t rows = 64;
  const auto blocks = [&](DType type, std::uint32_t cols, std::uint32_t n, std::uint64_t at) {
    return plan_texel_matmul(device, type, {&rows, 1}, cols, n, {&at, 1}).value().constants[3];
  };
  for (const DType type : {DType::q4_0, DType::q8_0}) {
    EXPECT_EQ(blocks(type, 256, 1, 16), 8U);
    EXPECT_EQ(blocks(type, 256, 1, 8), 4U);
    EXPECT_EQ(blocks(type, 128, 1, 16), 4U);
    EXPECT_EQ(blocks(type, 96, 1, 16), 1U);
    EXPECT_EQ(blocks(type, 256, 1, 2), 1U);
    EXPECT_EQ(blocks(type, 256, 4, 16), 1U);
  }
  EXPECT_EQ(blocks(DType::f16, 256, 1, 16), 1U);
}

// A software driver keeps what each kernel was compiled from: one more costs a process megabytes.
TEST(VulkanPlan, FewTexelKernelsForAnyCount) {
  const DeviceFacts device = llvmpipe();
  const std::uint32_t rows = 1000, cols = 1024;
  const std::uint64_t at = 0;
  for (const DType type : {DType::q8_0, DType::f16}) {
    std::set<std::pair<std::string, std::vector<std::uint32_t>>> kernels;
    for (std::uint32_t n = 1; n <= 256; ++n) {
      auto plan = plan_texel_panel(device, type, rows, cols, n, at, 0);
      const bool panel = plan.has_value();
      EXPECT_EQ(panel, n != 1 && (n != 4 || type == DType::q8_0));
      if (!plan) plan = plan_texel_matmul(device, type, {&rows, 1}, cols, n, {&at, 1});
      ASSERT_TRUE(plan) << n;
      kernels.emplace(plan->kernel, plan->constants);
      const std::uint32_t groups = plan->groups[panel ? 2 : 0];  // of tokens
      EXPECT_GE(groups * plan->constants[2], n);
      EXPECT_LT((groups - 1) * plan->constants[2], n);
    }
    EXPECT_EQ(kernels.size(), type == DType::q8_0 ? 2U : 3U);
  }
}

// Sums are stored four at a time: what has not four goes by the other kernel.
TEST(VulkanPlan, PanelsOnlyWhereTheyFit) {
  DeviceFacts device = llvmpipe();
  device.storage_bytes = 4 * 100 * 64;
  EXPECT_TRUE(plan_texel_panel(device, DType::q8_0, 64, 1024, 100, 0, 0));
  EXPECT_FALSE(plan_texel_panel(device, DType::q8_0, 64, 1024, 101, 0, 0));
  EXPECT_FALSE(plan_texel_panel(device, DType::q8_0, 64, 1024, 100, 0, 32));
  EXPECT_TRUE(plan_texel_panel(device, DType::q8_0, 64, 1024, 99, 0, 32));
  EXPECT_FALSE(plan_texel_panel(device, DType::q8_0, 64, 1024, 99, 0, 8));
  EXPECT_FALSE(plan_texel_panel(device, DType::q8_0, 62, 1024, 99, 0, 0));
  EXPECT_FALSE(plan_texel_panel(device, DType::q8_0, 64, 1000, 99, 0, 0));
  EXPECT_FALSE(plan_texel_panel(device, DType::f32, 64, 1024, 99, 0, 0));
  for (device.subgroup_size = 1; device.subgroup_size <= 64; device.subgroup_size *= 2)
    EXPECT_EQ(plan_texel_panel(device, DType::q8_0, 64, 1024, 99, 0, 0).has_value(),
              device.subgroup_size >= 2 && device.subgroup_size <= 16)
        << device.subgroup_size << " lanes";
}

TEST(VulkanPlan, TilesAreUnrolledWhereLoopsWouldEndEarly) {
  const auto plan = [](const DeviceFacts& facts, std::uint64_t positions) {
    return plan_attend(facts, 64, 8, 16, positions);
  };
  // A split of 256 has 32 tiles of 19 turns and is counted 4 of its own, two to spare.
  EXPECT_FALSE(plan(llvmpipe(), 27'392).unrolled);
  EXPECT_EQ(plan(llvmpipe(), 27'392).most_positions, 27'392U);
  EXPECT_TRUE(plan(llvmpipe(), 27'393).unrolled);
  // Unrolled it has 32 and 4, so splits may be as many as there are; longer sequences have longer ones.
  EXPECT_EQ(plan(llvmpipe(), 131'072).most_positions, 1024 * 256U);
  EXPECT_GT(plan(llvmpipe(), 300'000).split, 256U);
  DeviceFacts gpu = llvmpipe();
  gpu.processor = false;
  EXPECT_FALSE(plan(gpu, 1'000'000).unrolled);
  EXPECT_GE(plan(gpu, 1'000'000).most_positions, 1'000'000U);
}

// What is too long is an error that says how long a sequence may be, and that long it may be.
TEST(VulkanPlan, NoSequenceIsLongerThanTheLongest) {
  for (const std::uint32_t lanes : {4U, 8U, 16U})
    for (const std::uint32_t head_dim : {32U, 64U, 128U, 256U, 512U}) {
      DeviceFacts device = llvmpipe();
      device.subgroup_size = lanes;
      // A loop that ends has one turn more. Tiles are loops over their lanes, unless unrolled: rows' alone
      // are.
      const auto most = [&](std::uint64_t positions) {
        const AttendPlan plan = plan_attend(device, head_dim, 8, 16, positions);
        const std::uint64_t splits = divided_up(plan.most_positions, plan.split), tile = 1 + 2 * (lanes + 1);
        const std::uint64_t tiles = divided_up(plan.split, lanes);
        EXPECT_LE(splits * (tiles * (plan.unrolled ? 1 : tile) + 2) + 1, 65'535U) << "attend_rows";
        EXPECT_LE(tiles * tile + 1, 65'535U) << "attend_split";
        EXPECT_LE(divided_up(head_dim, lanes) * (splits + 2) + 1, 65'535U) << "attend_combine";
        return plan.most_positions;
      };
      const std::uint64_t longest = most(10'000'000);
      SCOPED_TRACE(std::to_string(lanes) + " lanes, heads of " + std::to_string(head_dim));
      EXPECT_GT(longest, 65'000U * lanes) << "a turn for as many positions as a subgroup has lanes";
      EXPECT_GE(most(longest), longest);
      for (std::uint64_t positions = 1'000; positions < longest; positions += 1'000)
        ASSERT_GE(most(positions), positions);
      EXPECT_EQ(most(2 * longest), longest);
    }
}

TEST(VulkanPlan, ExpertsAreForStepsWhoseLoopsDoNotEndEarly) {
  EXPECT_TRUE(experts_can_do(llvmpipe(), 256, 8, 128, 2048));
  EXPECT_FALSE(experts_can_do(llvmpipe(), 2048, 8, 128, 2048)) << "pairs of all rows, twice for two experts";
  EXPECT_TRUE(experts_can_do(llvmpipe(), 256, 2, 8, 14'336));
  EXPECT_FALSE(experts_can_do(llvmpipe(), 4096, 2, 8, 14'336)) << "all rows may choose one expert";
  DeviceFacts gpu = llvmpipe();
  gpu.processor = false;
  EXPECT_TRUE(experts_can_do(gpu, 4096, 8, 128, 14'336));
}

TEST(VulkanPlan, PanelsAreForRowsWhoseLoopsDoNotEndEarly) {
  const auto panel = [](std::uint32_t cols, std::uint32_t n) {
    return plan_texel_panel(llvmpipe(), DType::q8_0, 32, cols, n, 0, 0).has_value();
  };
  EXPECT_TRUE(panel(504 * 128, 256));
  EXPECT_FALSE(panel(505 * 128, 256)) << "505 panels of 128 tokens and 2 turns more";
  EXPECT_TRUE(panel(505 * 128, 64));
  const auto tokens = [](std::uint32_t cols) {
    return plan_texel_panel(llvmpipe(), DType::q8_0, 32, cols, 256, 0, 0).value().constants[2];
  };
  EXPECT_EQ(tokens(254 * 128), 256U);
  EXPECT_EQ(tokens(255 * 128), 128U) << "more work-groups, whose loops are shorter";
}

}  // namespace
}  // namespace flyball::vulkan::test
