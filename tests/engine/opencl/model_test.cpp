// Whole models on an OpenCL device against the CPU engine, and against themselves: alone equals batched,
// whole equals chunked, in place equals uploaded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/cpu/cpu_device.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/synthetic.hpp"
#include "tests/engine/opencl/support.hpp"

namespace flyball {
namespace {

using kernels::DType;
constexpr std::uint32_t kBlocks = 64, kStepTokens = 64, kSequences = 8;

struct TestModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<model::ModelFile> file;
  std::uint32_t vocab() const { return file->config().vocab_size; }
};

TestModel make_model(DType type, std::string_view shape) {
  auto spec = model::parse_synthetic_shape(shape).value();
  spec.type = type;
  TestModel m;
  m.bytes = model::synthetic_bytes(spec).value();
  m.file = model::ModelFile::from_bytes(m.bytes).value();
  return m;
}

std::string_view shape_for(DType type) {
  return kernels::block_shape(type).values == 256 ? "dim=256,layers=2,heads=4,kv_heads=2,ffn=256,vocab=320"
                                                  : "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320";
}

template <class Made>
auto ready(Made made, const model::ModelFile& file) {
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  auto ok = (*made)->reserve_kv(graph::kv_layout(file.config()), kBlocks);
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
  return std::move(*made);
}

std::unique_ptr<engine::Executor> on_cpu(const TestModel& m) {
  cpu::CpuDeviceOptions options;
  options.threads = 2;
  options.max_step_tokens = kStepTokens;
  options.max_logit_rows = kSequences;
  return ready(cpu::make_cpu_executor(*m.file, options), *m.file);
}

std::unique_ptr<opencl::OpenClExecutor> on_opencl(const TestModel& m, bool upload = false) {
  opencl::OpenClDeviceOptions options;
  options.device = test::any_device();
  options.program_cache = test::shared_programs();
  options.upload = upload;
  options.max_step_tokens = kStepTokens;
  options.max_logit_rows = kSequences;
  return ready(opencl::make_opencl_executor(*m.file, options), *m.file);
}

std::vector<Token> some_tokens(std::size_t n, std::uint32_t vocab, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(n);
  for (Token& t : tokens) t = static_cast<Token>(random() % vocab);
  return tokens;
}

struct Piece {
  std::vector<Token> tokens;
  std::uint32_t first_position = 0;
  std::vector<std::uint32_t> blocks;
  bool want_logits = true;
};
using Rows = std::vector<std::vector<float>>;

Rows run(engine::Executor& executor, const std::vector<Piece>& pieces, std::uint32_t vocab) {
  std::vector<Token> tokens;
  std::vector<engine::StepSequence> sequences;
  for (const Piece& p : pieces) {
    sequences.push_back({static_cast<std::uint32_t>(tokens.size()),
                         static_cast<std::uint32_t>(p.tokens.size()), p.first_position, p.blocks,
                         p.want_logits});
    tokens.insert(tokens.end(), p.tokens.begin(), p.tokens.end());
  }
  const auto step = executor.submit({tokens, sequences}, {});
  if (!step) {
    ADD_FAILURE() << step.error().message;
    return {};
  }
  const auto logits = executor.wait(*step);
  if (!logits) {
    ADD_FAILURE() << logits.error().message;
    return {};
  }
  Rows rows;
  for (std::size_t at = 0; at < logits->logits.size(); at += vocab)
    rows.emplace_back(logits->logits.begin() + static_cast<std::ptrdiff_t>(at),
                      logits->logits.begin() + static_cast<std::ptrdiff_t>(at + vocab));
  return rows;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / norm);
}

// The contract of rows computed beside others, or in other chunks: on a processor bit for bit. A GPU may choose a
// kernel by the number of rows, and its sums then run in another order: equal but for the rounding of f32 sums and
// f16 KV, and the same token is the likeliest.
void expect_same_row(const opencl::OpenClExecutor& device, const std::vector<float>& got,
                     const std::vector<float>& expected) {
  if (device.facts().processor) {
    EXPECT_EQ(got, expected);
    return;
  }
  EXPECT_LT(relative_error(got, expected), 2e-3);
  EXPECT_EQ(std::ranges::max_element(got) - got.begin(), std::ranges::max_element(expected) - expected.begin());
}

std::vector<Token> greedy(engine::Executor& executor, std::vector<Token> tokens, std::size_t n,
                          std::uint32_t vocab) {
  const std::vector<std::uint32_t> blocks{9, 3, 4, 17, 5, 22, 23, 8, 1, 0};
  std::vector<Token> out;
  std::uint32_t position = 0;
  while (out.size() < n) {
    const auto rows = run(executor, {{tokens, position, blocks, true}}, vocab);
    if (rows.empty()) return out;
    position += static_cast<std::uint32_t>(tokens.size());
    out.push_back(static_cast<Token>(std::ranges::max_element(rows[0]) - rows[0].begin()));
    tokens = {out.back()};
  }
  return out;
}

class OpenClModel : public test::OpenClTest, public testing::WithParamInterface<DType> {};

// The bound is for what the CPU engine rounds on purpose: activations to int8 beside quantized weights. Here
// they stay f32.
TEST_P(OpenClModel, AgreesWithTheCpuEngine) {
  const auto m = make_model(GetParam(), shape_for(GetParam()));
  const auto tokens = some_tokens(37, m.vocab());
  auto expected = on_cpu(m);
  auto device = on_opencl(m);
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  const auto want = run(*expected, {{tokens, 0, blocks, true}}, m.vocab());
  const auto got = run(*device, {{tokens, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  const bool quantized = kernels::block_shape(GetParam()).values > 1;
  EXPECT_LT(relative_error(got[0], want[0]), quantized ? 2e-2 : 2e-3);
}

TEST_P(OpenClModel, GreedyTokensAreTheCpuEngines) {
  const auto m = make_model(GetParam(), shape_for(GetParam()));
  const auto prompt = some_tokens(11, m.vocab(), 3);
  auto expected = on_cpu(m);
  auto device = on_opencl(m);
  EXPECT_EQ(greedy(*device, prompt, 64, m.vocab()), greedy(*expected, prompt, 64, m.vocab()));
}

INSTANTIATE_TEST_SUITE_P(Types, OpenClModel, testing::ValuesIn(kernels::kAllDTypes),
                         [](const auto& i) { return std::string(kernels::to_string(i.param)); });

// Biases, head norms, other rotations, routed experts.
class OpenClFamily : public test::OpenClTest, public testing::WithParamInterface<const char*> {};

TEST_P(OpenClFamily, AgreesWithTheCpuEngine) {
  const auto m = make_model(DType::q8_0, GetParam());
  const auto tokens = some_tokens(37, m.vocab());
  auto expected = on_cpu(m);
  auto device = on_opencl(m);
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  const auto want = run(*expected, {{tokens, 0, blocks, true}}, m.vocab());
  const auto got = run(*device, {{tokens, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_LT(relative_error(got[0], want[0]), 3e-2);
  const auto prompt = some_tokens(11, m.vocab(), 3);
  EXPECT_EQ(greedy(*device, prompt, 64, m.vocab()), greedy(*expected, prompt, 64, m.vocab()));
}

INSTANTIATE_TEST_SUITE_P(
    Families, OpenClFamily,
    testing::Values(
        "arch=qwen2,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
        "arch=qwen3,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
        "arch=llama,dim=64,layers=2,heads=4,kv_heads=2,experts=4,experts_used=2,expert_ffn=64,vocab=320",
        "arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,experts=8,experts_used=3,expert_ffn=32,vocab=320"),
    [](const auto& i) {
      const std::string name(i.param);
      return name.substr(5, name.find(',') - 5) +
             (name.find("experts") != std::string::npos ? "_experts" : "");
    });

class OpenClEngine : public test::OpenClTest {};

TEST_F(OpenClEngine, TheDemoModelSaysWhatItSaysOnTheCpu) {
  const auto bytes = model::embedded_demo_model();
  if (bytes.empty()) GTEST_SKIP() << "this build has no embedded demo model";
  TestModel m;
  m.file = model::ModelFile::from_bytes(bytes).value();
  const auto prompt = some_tokens(23, 200, 5);
  auto expected = on_cpu(m);
  auto device = on_opencl(m);
  const std::vector<std::uint32_t> blocks{5, 3};
  const auto want = run(*expected, {{prompt, 0, blocks, true}}, m.vocab());
  const auto got = run(*device, {{prompt, 0, blocks, true}}, m.vocab());
  EXPECT_LT(relative_error(got[0], want[0]), 2e-2);
  EXPECT_EQ(greedy(*device, prompt, 64, m.vocab()), greedy(*expected, prompt, 64, m.vocab()));
}

TEST_F(OpenClEngine, AloneEqualsBatched) {
  const auto m = make_model(DType::f16, shape_for(DType::f16));
  const auto a = some_tokens(20, m.vocab(), 1), b = some_tokens(30, m.vocab(), 2);
  auto device = on_opencl(m);
  run(*device, {{a, 0, {0, 1}, false}}, m.vocab());
  run(*device, {{b, 0, {2, 3}, false}}, m.vocab());
  const Piece next_a{{7}, 20, {0, 1}, true}, next_b{{8}, 30, {2, 3}, true}, prompt{a, 0, {4, 5}, true};
  const auto alone_a = run(*device, {next_a}, m.vocab());
  const auto alone_b = run(*device, {next_b}, m.vocab());
  const auto alone_prompt = run(*device, {prompt}, m.vocab());
  const auto together = run(*device, {next_a, next_b, prompt}, m.vocab());
  ASSERT_EQ(together.size(), 3U);
  expect_same_row(*device, together[0], alone_a[0]);
  expect_same_row(*device, together[1], alone_b[0]);
  expect_same_row(*device, together[2], alone_prompt[0]);
}

TEST_F(OpenClEngine, WholeEqualsChunked) {
  const auto m = make_model(DType::f16, shape_for(DType::f16));
  const auto tokens = some_tokens(60, m.vocab());
  auto device = on_opencl(m);
  const auto whole = run(*device, {{tokens, 0, {0, 1, 2, 3}, true}}, m.vocab());
  for (const std::size_t chunk : {1U, 7U, 16U, 33U}) {
    Rows last;
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const auto end = std::min(tokens.size(), at + chunk);
      last = run(*device,
                 {{{tokens.begin() + static_cast<std::ptrdiff_t>(at),
                    tokens.begin() + static_cast<std::ptrdiff_t>(end)},
                   static_cast<std::uint32_t>(at),
                   {9, 8, 7, 6},
                   end == tokens.size()}},
                 m.vocab());
    }
    ASSERT_EQ(last.size(), 1U);
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    expect_same_row(*device, last[0], whole[0]);
  }
}

// 900 positions: several splits of decode attention, merged, against one pass over all of them.
TEST_F(OpenClEngine, SplitsAddUp) {
  const auto m = make_model(DType::f16, "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320");
  const auto tokens = some_tokens(900, m.vocab());
  std::vector<std::uint32_t> blocks(kBlocks - 1);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) blocks[i] = (i * 29 + 3) % kBlocks;
  const auto all = [&](engine::Executor& executor, std::size_t last_chunk) {
    Rows rows;
    std::size_t at = 0;
    while (at < tokens.size()) {
      const std::size_t left = tokens.size() - at;
      const std::size_t n = left > last_chunk ? std::min<std::size_t>(kStepTokens, left - last_chunk) : left;
      rows = run(executor,
                 {{{tokens.begin() + static_cast<std::ptrdiff_t>(at),
                    tokens.begin() + static_cast<std::ptrdiff_t>(at + n)},
                   static_cast<std::uint32_t>(at),
                   blocks,
                   at + n == tokens.size()}},
                 m.vocab());
      at += n;
    }
    return rows.at(0);
  };
  auto device = on_opencl(m);
  auto expected = on_cpu(m);
  const auto decoded = all(*device, 1);
  expect_same_row(*device, decoded, all(*device, 20));
  EXPECT_LT(relative_error(decoded, all(*expected, 1)), 2e-3);
}

TEST_F(OpenClEngine, UploadedEqualsInPlace) {
  const auto m = make_model(DType::q8_0, shape_for(DType::q8_0));
  const auto tokens = some_tokens(9, m.vocab());
  auto in_place = on_opencl(m);
  auto uploaded = on_opencl(m, true);
  EXPECT_FALSE(uploaded->statistics().weights_in_place);
  EXPECT_EQ(run(*in_place, {{tokens, 0, {1}, true}}, m.vocab()),
            run(*uploaded, {{tokens, 0, {1}, true}}, m.vocab()));
}

TEST_F(OpenClEngine, LoadsAreSeenToMove) {
  const auto m = make_model(DType::q8_0, shape_for(DType::q8_0));
  for (const bool upload : {false, true}) {
    std::uint64_t last = 0, total = 0, calls = 0;
    opencl::OpenClDeviceOptions options;
    options.device = test::any_device();
    options.program_cache = test::shared_programs();
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

TEST_F(OpenClEngine, BlocksAreCopiedBeforeTheStep) {
  const auto m = make_model(DType::f16, shape_for(DType::f16));
  const auto tokens = some_tokens(16, m.vocab());
  auto device = on_opencl(m);
  run(*device, {{tokens, 0, {2}, false}}, m.vocab());
  const auto expected = run(*device, {{{5}, 16, {2, 3}, true}}, m.vocab());
  const std::vector<Token> next{5};
  const std::vector<std::uint32_t> table{40, 41};
  const engine::StepSequence sequence{0, 1, 16, table, true};
  const engine::BlockCopy copy{2, 40};
  const auto step = device->submit({next, {&sequence, 1}}, {&copy, 1});
  ASSERT_TRUE(step);
  const auto logits = device->wait(*step);
  ASSERT_TRUE(logits);
  EXPECT_TRUE(std::ranges::equal(logits->logits, expected[0]));
}

}  // namespace
}  // namespace flyball
