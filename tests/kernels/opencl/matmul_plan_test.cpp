// Which kernel multiplies and over which grid: pure, no device.
#include "backends/opencl/matmul_plan.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace flyball::opencl {
namespace {

using kernels::DType;

const MatmulDevice kProcessor{
    .processor = true, .vector_floats = 16, .max_work_group = 4096, .local_bytes = 1 << 20};
const MatmulDevice kGpu{.vector_floats = 1, .max_work_group = 1024, .local_bytes = 48 << 10};

MatmulPlan plan(const MatmulDevice& device, std::vector<std::uint32_t> rows, std::uint32_t tokens) {
  return plan_matmul(device, default_tuning(device), DType::q8_0, rows, tokens, false);
}

TEST(MatmulPlan, FewTokensReadTheWeightsAndManyShareTheirUnpacking) {
  EXPECT_EQ(plan(kProcessor, {64}, 1).kernel, "matvec");
  EXPECT_EQ(plan(kProcessor, {64}, 8).kernel, "matvec");
  EXPECT_EQ(plan(kProcessor, {64}, 9).kernel, "matmul_panel");
  EXPECT_EQ(plan(kGpu, {64}, 8).kernel, "matvec");
  EXPECT_EQ(plan(kGpu, {64}, 32).kernel, "matvec");
  EXPECT_EQ(plan(kGpu, {64}, 32).global[1], 4U);
  EXPECT_EQ(plan(kGpu, {64}, 9).options, plan(kGpu, {64}, 8).options) << "eight at a time";
  EXPECT_EQ(plan(kGpu, {64}, 33).kernel, "matmul_tile");
}

TEST(MatmulPlan, TokensAreCompiledInAsPowersOfTwo) {
  EXPECT_NE(plan(kGpu, {64}, 3).options.find("-D TOKENS=4"), std::string::npos);
  EXPECT_EQ(plan(kGpu, {64}, 3).options, plan(kGpu, {4096}, 4).options) << "shapes compile nothing";
  EXPECT_NE(plan(kGpu, {64}, 3).options, plan(kGpu, {64}, 2).options);
}

// Every row has a work-item, and each matrix begins with a work-group of its own.
TEST(MatmulPlan, TokenClassesMeetEveryKernel) {
  for (const MatmulDevice& device : {kProcessor, kGpu}) {
    const auto kernel_for = [&](std::uint32_t n) {
      const MatmulPlan p = plan(device, {64}, n);
      return std::string(p.kernel) + p.options;
    };
    for (std::uint32_t most = 1; most <= 40; ++most) {
      std::set<std::string> met;
      for (const std::uint32_t n : token_classes(most)) {
        EXPECT_LE(n, most);
        met.insert(kernel_for(n));
      }
      for (std::uint32_t n = 1; n <= most; ++n)
        EXPECT_TRUE(met.contains(kernel_for(n))) << n << " of at most " << most;
    }
  }
}

TEST(MatmulPlan, GridsCoverEveryMatrix) {
  EXPECT_EQ(plan(kProcessor, {2048, 256, 1}, 1).global[0], 64U + 8 + 1);
  EXPECT_EQ(plan(kProcessor, {33}, 130).global, (std::array<std::size_t, 2>{2, 2}));
  const MatmulPlan gpu = plan(kGpu, {2048, 257}, 1);
  EXPECT_EQ(gpu.local[0], 128U);
  EXPECT_EQ(gpu.global[0], (256U + 33) * 128);
  EXPECT_EQ(plan(kGpu, {65}, 65).global, (std::array<std::size_t, 2>{2 * 256, 2}));
}

TEST(MatmulPlan, NothingAsksForMoreThanTheDeviceHas) {
  for (const std::uint32_t items : {1U, 8U, 32U, 64U, 128U, 256U, 1024U}) {
    for (const std::uint64_t local : {std::uint64_t{16} << 10, std::uint64_t{48} << 10}) {
      const MatmulDevice device{.vector_floats = 1, .max_work_group = items, .local_bytes = local};
      const MatmulTuning t = default_tuning(device);
      const auto tile = plan(device, {100}, 64);
      EXPECT_LE(tile.local[0], items);
      EXPECT_LE(tile_bytes(t.tile), local);
      const auto few = plan(device, {100}, 8);
      EXPECT_LE(few.local[0], items);
      EXPECT_LE(few.local[0] * 8 * 4, local);
    }
  }
}

TEST(MatmulPlan, ExpertsAreGroupedOnceTheyShareRows) {
  const MatmulTuning tuning = default_tuning(kGpu);
  const ExpertPlan few = plan_expert_matmul(kGpu, tuning, DType::q4_0, 100, 16, 8);
  EXPECT_FALSE(few.grouped);
  EXPECT_EQ(few.matmul.kernel, "moe_matvec");
  EXPECT_EQ(few.matmul.global[1], 16U);
  const ExpertPlan many = plan_expert_matmul(kGpu, tuning, DType::q4_0, 100, 17, 8);
  EXPECT_TRUE(many.grouped);
  EXPECT_EQ(many.matmul.kernel, "moe_matmul_tile");
  EXPECT_EQ(many.matmul.global[1], 8U);
  EXPECT_EQ(plan_expert_matmul(kProcessor, default_tuning(kProcessor), DType::q4_0, 100, 17, 8).matmul.kernel,
            "moe_matmul_panel");
}

}  // namespace
}  // namespace flyball::opencl
