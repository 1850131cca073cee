// The CPU engine's contract as an executor: steps that it refuses, copied blocks, and its memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "backends/graph/decoder.hpp"
#include "tests/backends/cpu/executor_runs.hpp"
#include "tests/backends/model/model_shapes.hpp"

namespace flyball::test {
namespace {

using kernels::DType;

TEST(CpuExecutor, RefusesStepsThatWouldWriteOutside) {
  const auto m = synthetic_model(DType::f32, kLlama);
  auto executor = cpu_executor(m);
  const std::vector<std::uint32_t> one = {0}, outside = {kRunBlocks};
  const auto refused = [&](std::vector<Token> tokens, device::StepSequence s) {
    const device::StepSequence sequences[] = {s};
    const auto step = executor->submit({tokens, sequences}, {});
    return !step && step.error().code == ErrorCode::internal;
  };
  EXPECT_TRUE(refused({}, {0, 0, 0, one, true}));
  EXPECT_TRUE(refused({320}, {0, 1, 0, one, true}));
  EXPECT_TRUE(refused({-1}, {0, 1, 0, one, true}));
  EXPECT_TRUE(refused({1}, {0, 1, 16, one, true}));
  EXPECT_TRUE(refused({1}, {0, 1, 0, outside, true}));
  EXPECT_TRUE(refused({1, 2}, {0, 1, 0, one, true}));
  EXPECT_TRUE(refused({1}, {0, 2, 0, one, true}));
  EXPECT_TRUE(refused(std::vector<Token>(65, 1), {0, 65, 0, one, true}));
  EXPECT_FALSE(refused({1}, {0, 1, 15, one, true}));
}

TEST(CpuExecutor, CopiesBlocksBeforeTheStep) {
  const auto m = synthetic_model(DType::f32, kLlama);
  const std::uint32_t vocab = m.file->config().vocab_size;
  auto executor = cpu_executor(m);
  const auto tokens = random_tokens(9, vocab);
  run_step(*executor, {{tokens, 0, {3}, true}}, vocab);
  const Token next[] = {5};
  const std::vector<std::uint32_t> original = {3}, copied = {11};
  const device::StepSequence on_copy[] = {{0, 1, 9, copied, true}};
  const device::BlockCopy copies[] = {{3, 11}};
  const auto step = executor->submit({next, on_copy}, copies).value();
  const auto got = executor->wait(step).value().logits;
  const std::vector<float> from_copy(got.begin(), got.end());
  EXPECT_EQ(from_copy, run_step(*executor, {{{5}, 9, original, true}}, vocab)[0]);
  const device::BlockCopy bad[] = {{0, kRunBlocks}};
  EXPECT_FALSE(executor->submit({next, on_copy}, bad));
}

TEST(CpuExecutor, LeavesRowsWhole) {
  const auto m = synthetic_model(DType::f32, kLlama);
  auto executor = cpu_executor(m);
  EXPECT_EQ(executor->max_candidates(), 0U);
  const Token next[] = {5};
  const std::vector<std::uint32_t> table = {3};
  const device::StepSequence cut[] = {{0, 1, 0, table, true, 1}};
  EXPECT_FALSE(executor->submit({next, cut}, {}));
}

TEST(CpuExecutor, SaysHowMuchMemoryItLacks) {
  const auto m = synthetic_model(DType::f32, kLlama);
  cpu::CpuDeviceOptions options;
  auto executor = cpu::make_cpu_executor(*m.file, options).value();
  graph::KvLayout layout = graph::kv_layout(m.file->config());
  layout.block_size = 1U << 24;
  const auto result = executor->reserve_kv(layout, 1U << 24);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::insufficient_memory);
  EXPECT_NE(result.error().message.find("TiB are needed"), std::string::npos);
  EXPECT_NE(result.error().message.find("are free"), std::string::npos);
  layout.block_size = 1U << 31;
  const auto overflowing = executor->reserve_kv(layout, 1U << 31);  // a multiple of 2^64 bytes
  ASSERT_FALSE(overflowing);
  EXPECT_EQ(overflowing.error().code, ErrorCode::insufficient_memory);
}

// A step that comes to memory nobody has used yet would be late.
TEST(CpuExecutor, TakesTheCachesMemoryAtOnce) {
  const auto resident = [] {
    std::uint64_t all = 0, in_memory = 0;  // pages
    std::ifstream("/proc/self/statm") >> all >> in_memory;
    return in_memory * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  };
  const auto m = synthetic_model(DType::q8_0, kLlama);
  auto executor = cpu::make_cpu_executor(*m.file, {}).value();
  const graph::KvLayout layout = graph::kv_layout(m.file->config());
  const std::uint64_t before = resident();
  ASSERT_TRUE(executor->reserve_kv(layout, static_cast<std::uint32_t>((50U << 20) / layout.block_bytes())));
  EXPECT_GE(resident(), before + (49U << 20));
}

TEST(CpuExecutor, CountsItsMemory) {
  const auto m = synthetic_model(DType::q8_0, kLlama);
  auto executor = cpu_executor(m);
  const auto plan = executor->memory();
  EXPECT_GE(plan.weight_bytes, m.file->weight_bytes() * 9 / 10);
  EXPECT_EQ(plan.kv_bytes, graph::kv_layout(m.file->config()).block_bytes() * kRunBlocks);
  EXPECT_GE(plan.scratch_bytes,
            graph::plan_bytes(graph::plan_buffers(m.file->config(), kRunStepTokens, kRunSequences)));
}

}  // namespace
}  // namespace flyball::test
