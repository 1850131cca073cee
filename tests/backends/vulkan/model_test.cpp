// Whole models on a Vulkan device: the CPU engine's logits and tokens, and the device's own alone, batched,
// in chunks and replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <string>

#include "backends/model/embedded_demo.hpp"
#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/model/model_shapes.hpp"
#include "tests/backends/vulkan/support.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::test {
namespace {

using kernels::DType;
using vulkan::WeightsIn;

void expect_the_cpu_engine(const RunModel& m, DType kv_type, double bound) {
  const auto expected = cpu_executor(m, kv_type);
  const auto device = vulkan_executor(m, kv_type);
  expect_the_cpu_engines_logits(*device, *expected, m, bound);
  const auto prompt = random_tokens(11, std::min(m.vocab(), 300U), 3);
  EXPECT_EQ(greedy_tokens(*device, prompt, 64, m.vocab()), greedy_tokens(*expected, prompt, 64, m.vocab()));
}

class VulkanModel : public VulkanTest, public testing::WithParamInterface<DType> {};

TEST_P(VulkanModel, AgreesWithTheCpuEngine) {
  const bool quantized = kernels::block_shape(GetParam()).values > 1;
  expect_the_cpu_engine(synthetic_model(GetParam(), shape_for(GetParam())), DType::f16,
                        quantized ? 2e-2 : 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanModel, testing::ValuesIn(kernels::kAllDTypes),
                         [](const auto& i) { return std::string(kernels::to_string(i.param)); });

// What one product multiplies may lie in several buffers: all of it goes by the kernels of its device all the
// same.
TEST_F(VulkanTest, WeightsInManyBuffersGoByTheSameKernels) {
  for (const DType type : {DType::f16, DType::q8_0}) {
    const RunModel m = synthetic_model(type, shape_for(type));
    graph::KernelTimes times;
    auto options = vulkan_options();
    options.device.times = &times;
    options.weight_window = 4096;
    const auto device = with_kv(vulkan::make_vulkan_executor(*m.file, options), *m.file, DType::f16);
    expect_the_cpu_engines_logits(*device, *cpu_executor(m), m, type == DType::f16 ? 2e-3 : 2e-2);
    const auto facts = vulkan::Device::open(any_vulkan_device()).value()->facts();
    if (facts.texel_bytes == 0) GTEST_SKIP() << "the device reads by address";
    std::set<std::string> ran;
    for (const auto& [name, time] : times.kernels()) ran.insert(std::string(name));
    const std::string format = type == DType::f16 ? "f16" : "q8_0";
    for (const std::string& kernel :
         {"texel_panel_" + format, std::string("texel_rms_norm"), std::string("texel_glu")})
      EXPECT_TRUE(ran.contains(kernel)) << kernel;
    for (const std::string& kernel : {"matmul_" + format, std::string("rms_norm"), std::string("glu")})
      EXPECT_FALSE(ran.contains(kernel)) << kernel;
  }
}

// Biases, head norms, other rotations, routed experts.
class VulkanFamily : public VulkanTest, public testing::WithParamInterface<const char*> {};

TEST_P(VulkanFamily, AgreesWithTheCpuEngine) {
  expect_the_cpu_engine(synthetic_model(DType::f32, GetParam()), DType::f16, 2e-3);
  // Experts that are nearly as likely may be chosen otherwise where activations are rounded: tokens may
  // differ.
  const auto m = synthetic_model(DType::q8_0, GetParam());
  expect_the_cpu_engines_logits(*vulkan_executor(m), *cpu_executor(m), m, 3e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Families, VulkanFamily,
    testing::Values(
        "arch=qwen2,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
        "arch=qwen3,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320", kPhi3.data(), kGemma2.data(),
        kGemma3.data(), kBiasedLlama.data(), kOutputBias.data(), kInputBiases.data(), kGranite.data(),
        kMistral3.data(), kSmolLm3.data(),
        "arch=llama,dim=64,layers=2,heads=4,kv_heads=2,experts=4,experts_used=2,expert_ffn=64,vocab=320",
        "arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,experts=8,experts_used=3,expert_ffn=32,vocab=320"),
    [](const auto& i) { return family_name(i.param); });

class VulkanWindow : public VulkanTest, public testing::WithParamInterface<DType> {};

TEST_P(VulkanWindow, RowsDoNotDependOnTheirCompany) {
  for (const std::string_view shape : kWindowed) {
    SCOPED_TRACE(shape);
    const auto m = synthetic_model(DType::f16, shape);
    const auto device = vulkan_executor(m, GetParam());
    const SameRow same = std::bind_front(expect_same_row, std::cref(*device));
    expect_alone_equals_batched(*device, m.vocab(), same);
    expect_whole_equals_chunked(*device, m.vocab(), same);
    expect_the_cpu_engines_logits(*device, *cpu_executor(m, GetParam()), m, 3e-2);
  }
}

// Splits before the window are left out, and the one that it begins in counts in part.
TEST_P(VulkanWindow, SplitsAddUp) {
  const auto m = synthetic_model(DType::f16, kWideWindow);
  const auto device = vulkan_executor(m, GetParam());
  const auto decoded = last_of_900(*device, m.vocab(), 1);
  expect_same_row(*device, decoded, last_of_900(*device, m.vocab(), 20));
  EXPECT_LT(relative_error(decoded, last_of_900(*cpu_executor(m, GetParam()), m.vocab(), 1)), 3e-2);
}

INSTANTIATE_TEST_SUITE_P(Kv, VulkanWindow, testing::Values(DType::f16, DType::q8_0),
                         [](const auto& i) { return std::string(kernels::to_string(i.param)); });

class VulkanEngine : public VulkanTest {};

TEST_F(VulkanEngine, TheDemoModelSaysWhatItSaysOnTheCpu) {
  const auto bytes = model::embedded_demo_model();
  if (bytes.empty()) GTEST_SKIP() << "this build has no embedded demo model";
  RunModel m;
  m.file = model::ModelFile::from_bytes(bytes).value();
  expect_the_cpu_engine(m, DType::f16, 3e-2);
}

TEST_F(VulkanEngine, AloneEqualsBatched) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = vulkan_executor(m);
  expect_alone_equals_batched(*device, m.vocab(), std::bind_front(expect_same_row, std::cref(*device)));
}

TEST_F(VulkanEngine, WholeEqualsChunked) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = vulkan_executor(m);
  expect_whole_equals_chunked(*device, m.vocab(), std::bind_front(expect_same_row, std::cref(*device)));
}

TEST_F(VulkanEngine, RowsOfASequenceAreThoseOfItsBeginnings) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = vulkan_executor(m);
  expect_rows_of_beginnings(*device, m.vocab(), std::bind_front(expect_same_row, std::cref(*device)));
}

// Of the machine's memory KV takes at once all that was promised to it, activations what steps touch.
TEST_F(VulkanEngine, ActivationsTakeNoMemoryBeforeAStepIsThatLong) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "what is freed stays resident under this sanitizer";
#endif
  const auto resident = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) << 10;
    return 0ULL;
  };
  const auto m = synthetic_model(DType::f16, "dim=256,layers=1,heads=4,kv_heads=2,ffn=4096,vocab=320");
  auto options = vulkan_options();
  options.max_step_tokens = 8192;
  const std::uint64_t before = resident();
  const auto device = vulkan::make_vulkan_executor(*m.file, options).value();
  if (!device->facts().processor) GTEST_SKIP() << "the driver takes what it takes";
  const auto layout = graph::kv_layout(m.file->config(), DType::f16);
  ASSERT_TRUE(device->reserve_kv(layout, (64U << 20) / layout.block_bytes()).has_value());
  const graph::MemoryPlan plan = device->memory();
  ASSERT_GE(plan.scratch_bytes, 256U << 20);
  EXPECT_GE(resident(), before + plan.kv_bytes);
  EXPECT_LE(resident(), before + plan.kv_bytes + plan.scratch_bytes / 2);
}

// llvmpipe ends long loops without a word: what would have them is refused by name, and takes nothing.
TEST_F(VulkanEngine, WhatHasLoopsTooLongIsRefused) {
  const auto long_context =
      synthetic_model(DType::f16, "dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320,context=4000000");
  const auto device = vulkan::make_vulkan_executor(*long_context.file, vulkan_options()).value();
  if (!device->facts().processor) GTEST_SKIP() << "a GPU's loops have all their turns";
  const auto layout = graph::kv_layout(long_context.file->config(), DType::f16);
  const auto refused = device->reserve_kv(layout, graph::kv_blocks(layout, 4'000'000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported_value);
  EXPECT_EQ(refused.error().param, "context");
  EXPECT_EQ(device->memory().kv_bytes, 0U);
  std::smatch longest;
  ASSERT_TRUE(std::regex_search(refused.error().message, longest, std::regex("attends to ([0-9]+) at most")))
      << refused.error().message;
  const auto blocks = graph::kv_blocks(layout, std::stoull(longest[1]));
  const auto taken = device->reserve_kv(layout, blocks);
  EXPECT_TRUE(taken) << taken.error().message;

  const auto mixture = synthetic_model(DType::f16, kMixture);
  auto options = vulkan_options();
  options.max_step_tokens = 16'384;
  const auto none = vulkan::make_vulkan_executor(*mixture.file, options);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported_value);
  EXPECT_EQ(none.error().param, "backend");
  EXPECT_THAT(none.error().message, testing::HasSubstr("16384 tokens"));
}

// Of a step that may be given up no more is submitted than the layer that runs and the next.
TEST_F(VulkanEngine, AStepIsGivenUpBeforeItsLayersAreSubmitted) {
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=12,heads=4,kv_heads=2,ffn=96,vocab=320");
  std::atomic<bool> stop{false};
  std::size_t submitted = 0, stop_at = 0;
  auto options = vulkan_options();
  options.device.interceptor = [&](vulkan::Call call) {
    if (call == vulkan::Call::submit && ++submitted == stop_at) stop = true;
    return 0;
  };
  const auto device = with_kv(vulkan::make_vulkan_executor(*m.file, options), *m.file, DType::f16);
  const Piece prompt{random_tokens(30, m.vocab()), 0, {3, 4, 9}};
  const device::StepSequence sequence{0, 30, 0, prompt.blocks, true};
  const device::StepBatch batch{prompt.tokens, {&sequence, 1}, 0, &stop};
  const auto expected = run_step(*device, {prompt}, m.vocab());

  submitted = 0;
  stop_at = 4;
  const auto stopped = device->submit(batch, {});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_EQ(submitted, 4U);

  stop = false;
  submitted = stop_at = 0;
  const auto step = device->submit(batch, {});
  ASSERT_TRUE(step) << step.error().message;
  EXPECT_EQ(submitted, 13U);  // the embedding, and each layer
  const auto rows = device->wait(*step);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_TRUE(std::ranges::equal(rows->logits, expected.at(0))) << "the same step, not stopped";
}

// Several splits of decode attention, merged, against one pass over all of them, and the CPU engine's.
TEST_F(VulkanEngine, SplitsAddUp) {
  const auto m = synthetic_model(DType::f16, kKvShape);
  const auto device = vulkan_executor(m);
  const auto decoded = last_of_900(*device, m.vocab(), 1);
  expect_same_row(*device, decoded, last_of_900(*device, m.vocab(), 20));
  EXPECT_LT(relative_error(decoded, last_of_900(*cpu_executor(m, DType::f16), m.vocab(), 1)), 2e-3);
}

// One recording serves every step of its shape.
TEST_F(VulkanEngine, DecodeIsReplayed) {
  const auto m = synthetic_model(DType::q8_0, shape_for(DType::q8_0));
  const auto device = vulkan_executor(m);
  greedy_tokens(*device, random_tokens(11, m.vocab()), 40, m.vocab());
  EXPECT_EQ(device->statistics().recorded, 2U);  // the prompt's shape, and decode's
  EXPECT_EQ(device->statistics().replayed, 38U);
}

// Only a context of more than one split, 256 positions, has splits to merge, and a recording that does.
TEST_F(VulkanEngine, LongerContextsAreRecordedOnceMore) {
  const auto m = synthetic_model(DType::f16, kKvShape);
  const auto device = vulkan_executor(m);
  std::vector<std::uint32_t> blocks(kRunBlocks);
  std::iota(blocks.begin(), blocks.end(), 0U);
  const auto recorded_at = [&](std::size_t positions) {
    run_chunks(*device, random_tokens(positions, m.vocab()), blocks, m.vocab(), 1);
    return device->statistics().recorded;
  };
  const std::size_t split = device->facts().processor ? 256 : 64;
  EXPECT_EQ(recorded_at(split), 2U);  // the last wants logits
  EXPECT_EQ(recorded_at(split + 14), 4U);
  EXPECT_EQ(device->statistics().replayed, 2 * split + 14 - 4);
}

// What top_k hands over is what the whole row says, and both may be wanted in one step.
TEST_F(VulkanEngine, CandidatesAreTheRows) {
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  const auto device = vulkan_executor(m);
  const auto tokens = random_tokens(20, m.vocab());
  const auto rows = run_step(*device, {{tokens, 0, {0, 1}, true}}, m.vocab());
  ASSERT_EQ(rows.size(), 1U);
  std::vector<Token> order(m.vocab());
  for (std::uint32_t i = 0; i < m.vocab(); ++i) order[i] = static_cast<Token>(i);
  const auto value = [&](Token t) { return rows[0][static_cast<std::size_t>(t)]; };
  std::ranges::stable_sort(order, [&](Token a, Token b) { return value(a) > value(b); });
  double sum = 0;
  for (const float x : rows[0]) sum += std::exp(double{x} - value(order[0]));

  std::vector<Token> both(tokens);
  both.insert(both.end(), tokens.begin(), tokens.end());
  const std::vector<std::uint32_t> first{2, 3}, second{4, 5};
  const device::StepSequence sequences[] = {{0, 20, 0, first, true}, {20, 20, 0, second, true, 40, true}};
  const auto step = device->submit({both, sequences}, {});
  ASSERT_TRUE(step);
  const auto output = device->wait(*step);
  ASSERT_TRUE(output);
  ASSERT_EQ(output->logits.size(), m.vocab());
  expect_same_row(*device, {output->logits.begin(), output->logits.end()}, rows[0]);
  ASSERT_EQ(output->candidates.size(), 1U);
  const decode::Candidates& c = output->candidates[0];
  EXPECT_TRUE(c.finite);
  EXPECT_NEAR(c.exp_sum, sum, 1e-4 * sum);
  ASSERT_EQ(c.likeliest.size(), 40U);
  for (std::size_t i = 0; device->facts().processor && i < 40; ++i) {
    EXPECT_EQ(c.likeliest[i].token, order[i]) << i;
    EXPECT_EQ(c.likeliest[i].value, value(order[i])) << i;
  }
}

// A model file, because only a file's pages can be read where they are.
TEST_F(VulkanEngine, WeightsAreReadWhereTheyLieOrCopied) {
  auto spec = model::parse_synthetic_shape(shape_for(DType::q4_k)).value();
  spec.type = DType::q4_k;
  const auto path =
      std::filesystem::temp_directory_path() / ("flyball_vulkan_" + std::to_string(getpid()) + ".gguf");
  ASSERT_TRUE(model::write_synthetic_file(spec, path, 1));
  RunModel m;
  m.file = model::ModelFile::open(path).value();
  std::filesystem::remove(path);
  const auto tokens = random_tokens(9, m.vocab());
  Rows first;
  for (const WeightsIn in : {WeightsIn::automatic, WeightsIn::shared, WeightsIn::staged}) {
    const auto device = vulkan_executor(m, DType::f16, in);
    if (in == WeightsIn::automatic && device->facts().unified && device->facts().host_import) {
      EXPECT_EQ(device->statistics().weights_in, WeightsIn::file);
    } else if (in != WeightsIn::automatic) {
      EXPECT_EQ(device->statistics().weights_in, in);
    }
    const auto rows = run_step(*device, {{tokens, 0, {1}, true}}, m.vocab());
    if (first.empty()) first = rows;
    EXPECT_EQ(rows, first);
  }
}

TEST_F(VulkanEngine, LoadsAreSeenToMove) {
  const auto m = synthetic_model(DType::q8_0, shape_for(DType::q8_0));
  for (const WeightsIn in : {WeightsIn::shared, WeightsIn::staged}) {
    std::uint64_t last = 0, total = 0;
    auto options = vulkan_options(in);
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_GT(done, last);
      last = done;
      total = all;
    };
    ASSERT_TRUE(vulkan::make_vulkan_executor(*m.file, options));
    EXPECT_EQ(last, total);
    EXPECT_GT(total, 0U);
  }
}

class VulkanKv : public VulkanTest, public testing::WithParamInterface<DType> {
 protected:
  const RunModel model_ = synthetic_model(DType::f16, kKvShape);
};

TEST_P(VulkanKv, ACopiedBlockEqualsAComputedOne) {
  expect_copied_block_equals_computed(*vulkan_executor(model_, GetParam()), model_.vocab());
}

TEST_P(VulkanKv, HoldsWhatThePlanSays) {
  EXPECT_EQ(vulkan_executor(model_, GetParam())->memory().kv_bytes,
            graph::kv_layout(model_.file->config(), GetParam()).block_bytes() * kRunBlocks);
}

TEST_P(VulkanKv, IsReadAsTheCpuEngineReadsIt) {
  for (const DType type : {DType::f32, DType::q8_0}) {
    SCOPED_TRACE(kernels::to_string(type));
    expect_the_cpu_engine(synthetic_model(type, kKvShape), GetParam(), 3e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanKv, testing::Values(DType::f16, DType::q8_0),
                         [](const auto& i) { return std::string(kernels::to_string(i.param)); });

TEST_F(VulkanEngine, Q8KvAloneEqualsBatchedAndWholeEqualsChunked) {
  const auto m = synthetic_model(DType::f16, kKvShape);
  const auto device = vulkan_executor(m, DType::q8_0);
  if (!device->facts().processor) GTEST_SKIP() << "a GPU may differ by the rounding of sums";
  expect_alone_equals_batched(*device, m.vocab());
  expect_whole_equals_chunked(*device, m.vocab());
}

}  // namespace
}  // namespace flyball::test
