// Whole models on an OpenCL device against the CPU engine, and against themselves: alone equals batched,
// whole equals chunked, in place equals uploaded.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <tuple>

#include "backends/model/embedded_demo.hpp"
#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/model/model_shapes.hpp"
#include "tests/backends/opencl/executors.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball {
namespace {

using kernels::DType;
using test::cpu_executor, test::greedy_tokens, test::opencl_executor, test::random_tokens,
    test::relative_error, test::run_step, test::RunModel, test::shape_for, test::synthetic_model;

template <class Given>
class OpenClCases : public test::OpenClTest,
                    public testing::WithParamInterface<std::tuple<Given, opencl::Pretence>> {
 protected:
  Given given() const { return std::get<0>(this->GetParam()); }
  opencl::OpenClDeviceOptions options() const { return test::opencl_options(std::get<1>(this->GetParam())); }
  std::unique_ptr<opencl::OpenClExecutor> device_for(const RunModel& m) const {
    return opencl_executor(m, DType::f16, options());
  }
};

class OpenClModel : public OpenClCases<DType> {};

// The bound is for what the CPU engine rounds on purpose: activations to int8 beside quantized weights. Here
// they stay f32.
TEST_P(OpenClModel, AgreesWithTheCpuEngine) {
  const auto m = synthetic_model(given(), shape_for(given()));
  const auto tokens = random_tokens(37, m.vocab());
  auto expected = cpu_executor(m);
  auto device = device_for(m);
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  const auto want = run_step(*expected, {{tokens, 0, blocks, true}}, m.vocab());
  const auto got = run_step(*device, {{tokens, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  const bool quantized = kernels::block_shape(given()).values > 1;
  EXPECT_LT(relative_error(got[0], want[0]), quantized ? 2e-2 : 2e-3);
}

TEST_P(OpenClModel, GreedyTokensAreTheCpuEngines) {
  const auto m = synthetic_model(given(), shape_for(given()));
  const auto prompt = random_tokens(11, m.vocab(), 3);
  auto expected = cpu_executor(m);
  auto device = device_for(m);
  EXPECT_EQ(greedy_tokens(*device, prompt, 64, m.vocab()), greedy_tokens(*expected, prompt, 64, m.vocab()));
}

std::string case_name(const testing::TestParamInfo<OpenClModel::ParamType>& i) {
  return std::string(kernels::to_string(std::get<0>(i.param))) + "_" +
         test::device_name(std::get<1>(i.param));
}
INSTANTIATE_TEST_SUITE_P(Types, OpenClModel,
                         testing::Combine(testing::ValuesIn(kernels::kAllDTypes),
                                          testing::Values(test::kItself)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(AsGpu, OpenClModel,
                         testing::Combine(testing::Values(DType::f16, DType::q8_0, DType::q4_k),
                                          testing::Values(test::kAsGpu)),
                         case_name);

// Biases, head norms, other rotations, routed experts.
class OpenClFamily : public OpenClCases<std::string_view> {};

TEST_P(OpenClFamily, AgreesWithTheCpuEngine) {
  for (const DType type : {DType::f32, DType::q8_0}) {
    const auto m = synthetic_model(type, given());
    const auto tokens = random_tokens(37, m.vocab());
    auto expected = cpu_executor(m);
    auto device = device_for(m);
    const std::vector<std::uint32_t> blocks{5, 3, 60};
    const auto want = run_step(*expected, {{tokens, 0, blocks, true}}, m.vocab());
    const auto got = run_step(*device, {{tokens, 0, blocks, true}}, m.vocab());
    ASSERT_EQ(got.size(), 1U);
    EXPECT_LT(relative_error(got[0], want[0]), type == DType::f32 ? 2e-3 : 3e-2);
    // Tokens and experts that are nearly as likely may be chosen otherwise where activations are rounded.
    if (type != DType::f32) continue;
    const auto prompt = random_tokens(11, m.vocab(), 3);
    EXPECT_EQ(greedy_tokens(*device, prompt, 64, m.vocab()), greedy_tokens(*expected, prompt, 64, m.vocab()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, OpenClFamily,
    testing::Combine(
        testing::Values(
            "arch=qwen2,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
            "arch=qwen3,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320", test::kPhi3, test::kGemma2,
            test::kGemma3, test::kBiasedLlama, test::kOutputBias, test::kInputBiases, test::kGranite,
            test::kMistral3, test::kSmolLm3,
            "arch=llama,dim=64,layers=2,heads=4,kv_heads=2,experts=4,experts_used=2,expert_ffn=64,vocab=320",
            "arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,experts=8,experts_used=3,expert_ffn=32,vocab="
            "320"),
        testing::Values(test::kItself, test::kAsGpu)),
    [](const auto& i) {
      return test::family_name(std::get<0>(i.param)) + "_" + test::device_name(std::get<1>(i.param));
    });

class OpenClWindow : public OpenClCases<DType> {};

TEST_P(OpenClWindow, RowsDoNotDependOnTheirCompany) {
  for (const std::string_view shape : test::kWindowed) {
    SCOPED_TRACE(shape);
    const auto m = synthetic_model(DType::f16, shape);
    const auto device = opencl_executor(m, given(), options());
    const test::SameRow same = std::bind_front(test::expect_same_row, std::cref(*device));
    test::expect_alone_equals_batched(*device, m.vocab(), same);
    test::expect_whole_equals_chunked(*device, m.vocab(), same);
  }
}

// Splits before the window are left out, and the one that it begins in counts in part.
TEST_P(OpenClWindow, SplitsAddUp) {
  const auto m = synthetic_model(DType::f16, test::kWideWindow);
  const auto device = opencl_executor(m, given(), options());
  const auto decoded = test::last_of_900(*device, m.vocab(), 1);
  test::expect_same_row(*device, decoded, test::last_of_900(*device, m.vocab(), 20));
  EXPECT_LT(relative_error(decoded, test::last_of_900(*cpu_executor(m, given()), m.vocab(), 1)), 3e-2);
}

INSTANTIATE_TEST_SUITE_P(Kv, OpenClWindow,
                         testing::Combine(testing::Values(DType::f16, DType::q8_0),
                                          testing::Values(test::kItself, test::kAsGpu)),
                         case_name);

class OpenClEngine : public test::OpenClTest, public testing::WithParamInterface<opencl::Pretence> {
 protected:
  opencl::OpenClDeviceOptions options() const { return test::opencl_options(GetParam()); }
  std::unique_ptr<opencl::OpenClExecutor> device_for(const RunModel& m) const {
    return opencl_executor(m, DType::f16, options());
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, OpenClEngine, testing::Values(test::kItself, test::kAsGpu),
                         [](const auto& i) { return test::device_name(i.param); });

TEST_P(OpenClEngine, TheDemoModelSaysWhatItSaysOnTheCpu) {
  const auto bytes = model::embedded_demo_model();
  if (bytes.empty()) GTEST_SKIP() << "this build has no embedded demo model";
  RunModel m;
  m.file = model::ModelFile::from_bytes(bytes).value();
  const auto prompt = random_tokens(23, 200, 5);
  auto expected = cpu_executor(m);
  auto device = device_for(m);
  const std::vector<std::uint32_t> blocks{5, 3};
  const auto want = run_step(*expected, {{prompt, 0, blocks, true}}, m.vocab());
  const auto got = run_step(*device, {{prompt, 0, blocks, true}}, m.vocab());
  EXPECT_LT(relative_error(got[0], want[0]), 2e-2);
  EXPECT_EQ(greedy_tokens(*device, prompt, 64, m.vocab()), greedy_tokens(*expected, prompt, 64, m.vocab()));
}

TEST_P(OpenClEngine, AloneEqualsBatched) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = device_for(m);
  test::expect_alone_equals_batched(*device, m.vocab(),
                                    std::bind_front(test::expect_same_row, std::cref(*device)));
}

TEST_P(OpenClEngine, WholeEqualsChunked) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = device_for(m);
  test::expect_whole_equals_chunked(*device, m.vocab(),
                                    std::bind_front(test::expect_same_row, std::cref(*device)));
}

TEST_P(OpenClEngine, RowsOfASequenceAreThoseOfItsBeginnings) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = device_for(m);
  test::expect_rows_of_beginnings(*device, m.vocab(),
                                  std::bind_front(test::expect_same_row, std::cref(*device)));
}

// Of a step that may be given up no more is enqueued than the layer that runs and the next.
TEST_F(OpenClEngine, AStepIsGivenUpBeforeItsLayersAreEnqueued) {
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=12,heads=4,kv_heads=2,ffn=96,vocab=320");
  std::atomic<bool> stop{false};
  std::size_t enqueued = 0, waited = 0, stop_at_wait = 0;
  auto options = test::opencl_options();
  options.devices[0].interceptor = [&](opencl::Call call) {
    if (call == opencl::Call::enqueue) ++enqueued;
    if (call == opencl::Call::wait && ++waited == stop_at_wait) stop = true;
    return CL_SUCCESS;
  };
  const auto device = opencl_executor(m, DType::f16, options);
  const test::Piece prompt{random_tokens(30, m.vocab()), 0, {3, 4, 9}};
  const device::StepSequence sequence{0, 30, 0, prompt.blocks, true};
  const device::StepBatch batch{prompt.tokens, {&sequence, 1}, 0, &stop};
  enqueued = 0;
  const auto expected = run_step(*device, {prompt}, m.vocab());
  const std::size_t whole = enqueued;

  enqueued = waited = 0;
  stop_at_wait = 3;
  const auto stopped = device->submit(batch, {});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_LT(enqueued, whole / 2);

  stop = false;
  const auto step = device->submit(batch, {});
  ASSERT_TRUE(step) << step.error().message;
  const auto rows = device->wait(*step);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_TRUE(std::ranges::equal(rows->logits, expected.at(0))) << "the same step, not stopped";
}

// 900 positions: several splits of decode attention, merged, against one pass over all of them.
TEST_P(OpenClEngine, SplitsAddUp) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = device_for(m);
  const auto decoded = test::last_of_900(*device, m.vocab(), 1);
  test::expect_same_row(*device, decoded, test::last_of_900(*device, m.vocab(), 20));
  EXPECT_LT(relative_error(decoded, test::last_of_900(*cpu_executor(m), m.vocab(), 1)), 2e-3);
}

TEST_P(OpenClEngine, UploadedEqualsInPlace) {
  const auto m = synthetic_model(DType::q8_0, shape_for(DType::q8_0));
  const auto tokens = random_tokens(9, m.vocab());
  auto in_place = device_for(m);
  auto options = this->options();
  options.upload = true;
  auto uploaded = opencl_executor(m, DType::f16, options);
  EXPECT_FALSE(uploaded->statistics().weights_in_place);
  EXPECT_EQ(run_step(*in_place, {{tokens, 0, {1}, true}}, m.vocab()),
            run_step(*uploaded, {{tokens, 0, {1}, true}}, m.vocab()));
}

TEST_P(OpenClEngine, LoadsAreSeenToMove) {
  const auto m = synthetic_model(DType::q8_0, shape_for(DType::q8_0));
  for (const bool upload : {false, true}) {
    std::uint64_t last = 0, total = 0, calls = 0;
    auto options = this->options();
    options.upload = upload;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_GT(done, last);
      last = done;
      total = all;
      ++calls;
    };
    ASSERT_TRUE(opencl::make_opencl_executor(*m.file, options));
    EXPECT_EQ(last, total);
    EXPECT_GT(calls, 5U);
  }
}

TEST_P(OpenClEngine, BlocksAreCopiedBeforeTheStep) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto tokens = random_tokens(16, m.vocab());
  auto device = device_for(m);
  run_step(*device, {{tokens, 0, {2}, false}}, m.vocab());
  const auto expected = run_step(*device, {{{5}, 16, {2, 3}, true}}, m.vocab());
  const device::BlockCopy copy{2, 40};
  EXPECT_EQ(run_step(*device, {{{5}, 16, {40, 41}, true}}, m.vocab(), {&copy, 1}), expected);
}

// Devices that build less than they say of themselves: their compiler runs out of registers, or there is
// little local memory. They serve, with smaller work-groups.
class OpenClNarrow : public test::OpenClTest, public testing::WithParamInterface<opencl::Pretence> {};

TEST_P(OpenClNarrow, SaysWhatTheCpuEngineSays) {
  for (const std::string_view shape :
       {"arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,experts=8,experts_used=3,expert_ffn=32,vocab=320",
        "dim=256,layers=2,heads=2,kv_heads=1,ffn=96,vocab=320"}) {
    const auto m = synthetic_model(DType::q8_0, shape);
    const auto prompt = random_tokens(37, m.vocab(), 3);
    const auto expected = cpu_executor(m);
    const auto device = opencl_executor(m, DType::f16, test::opencl_options(GetParam()));
    EXPECT_EQ(greedy_tokens(*device, prompt, 32, m.vocab()), greedy_tokens(*expected, prompt, 32, m.vocab()))
        << shape;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OpenClNarrow,
                         testing::Values(opencl::Pretence{.gpu = true, .kernel_items = 128},
                                         opencl::Pretence{.gpu = true, .kernel_items = 32},
                                         opencl::Pretence{.gpu = true, .local_bytes = 6 << 10}),
                         [](const auto& i) {
                           return i.param.kernel_items != 0 ? std::to_string(i.param.kernel_items) + "_items"
                                                            : std::to_string(i.param.local_bytes) + "_bytes";
                         });

class OpenClLeast : public test::OpenClTest {};

// No further try helps, so the fleet need not make one; and the search for something smaller ends.
TEST_F(OpenClLeast, ADeviceThatNeverBuildsAKernelIsNotSupported) {
  const auto m = synthetic_model(DType::q8_0, shape_for(DType::q8_0));
  const auto made =
      opencl::make_opencl_executor(*m.file, test::opencl_options({.gpu = true, .local_bytes = 16}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::model_unsupported) << made.error().message;
  EXPECT_NE(made.error().message.find("bytes of local memory"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace flyball
