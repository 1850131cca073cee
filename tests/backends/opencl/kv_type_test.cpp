// The KV cache as q8_0 on an OpenCL device: the CPU engine's tokens with the same cache, and itself: bit
// for bit on a processor.
#include <gtest/gtest.h>

#include "backends/model/embedded_demo.hpp"
#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/opencl/executors.hpp"

namespace flyball::test {
namespace {

using kernels::DType;

std::unique_ptr<opencl::OpenClExecutor> q8_executor(const RunModel& m) {
  return opencl_executor(m, DType::q8_0);
}

class OpenClQ8Kv : public OpenClTest {
 protected:
  const RunModel model_ = synthetic_model(DType::f16, kKvShape);
};

TEST_F(OpenClQ8Kv, AloneEqualsBatched) {
  const auto device = q8_executor(model_);
  expect_alone_equals_batched(*device, model_.vocab(), std::bind_front(expect_same_row, std::cref(*device)));
}

TEST_F(OpenClQ8Kv, WholeEqualsChunked) {
  const auto device = q8_executor(model_);
  expect_whole_equals_chunked(*device, model_.vocab(), std::bind_front(expect_same_row, std::cref(*device)));
}

TEST_F(OpenClQ8Kv, ACopiedBlockEqualsAComputedOne) {
  expect_copied_block_equals_computed(*q8_executor(model_), model_.vocab());
}

TEST_F(OpenClQ8Kv, HoldsWhatThePlanSays) {
  EXPECT_EQ(q8_executor(model_)->memory().kv_bytes,
            graph::kv_layout(model_.file->config(), DType::q8_0).block_bytes() * kRunBlocks);
}

// Several splits of decode attention, merged, against one pass over all positions and against the CPU engine.
TEST_F(OpenClQ8Kv, SplitsAddUp) {
  const auto device = q8_executor(model_);
  const auto decoded = last_of_900(*device, model_.vocab(), 1);
  expect_same_row(*device, decoded, last_of_900(*device, model_.vocab(), 20));
  const auto on_cpu = last_of_900(*cpu_executor(model_, DType::q8_0), model_.vocab(), 1);
  EXPECT_LT(relative_error(decoded, on_cpu), 3e-3);
}

// The bound is for activations, which the CPU engine rounds to int8 beside quantized weights, and for keys
// and values that differ by that and then round to another quant.
void expect_the_cpu_engines_tokens(const RunModel& m) {
  const auto device = q8_executor(m);
  const auto expected = cpu_executor(m, DType::q8_0);
  const auto prompt = random_tokens(37, std::min(m.vocab(), 300U), 5);
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  const auto want = run_step(*expected, {{prompt, 0, blocks, true}}, m.vocab());
  const auto got = run_step(*device, {{prompt, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_LT(relative_error(got[0], want[0]), 3e-2);
  EXPECT_EQ(greedy_tokens(*device, prompt, 64, m.vocab()), greedy_tokens(*expected, prompt, 64, m.vocab()));
}

TEST_F(OpenClQ8Kv, GreedyTokensAreTheCpuEngines) {
  for (const DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_0}) {
    SCOPED_TRACE(kernels::to_string(type));
    expect_the_cpu_engines_tokens(synthetic_model(type, kKvShape));
  }
}

TEST_F(OpenClQ8Kv, TheDemoModelSaysWhatItSaysOnTheCpu) {
  const auto bytes = model::embedded_demo_model();
  if (bytes.empty()) GTEST_SKIP() << "this build has no embedded demo model";
  RunModel m;
  m.file = model::ModelFile::from_bytes(bytes).value();
  expect_the_cpu_engines_tokens(m);
}

}  // namespace
}  // namespace flyball::test
