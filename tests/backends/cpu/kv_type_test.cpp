// The KV cache as q8_0 on the CPU device: itself against itself bit for bit, beside the f16 cache within what
// the rounding may cost, and in half its bytes.
#include <gtest/gtest.h>

#include <iostream>

#include "backends/graph/memory_plan.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/text/tokenizer.hpp"
#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/model/model_shapes.hpp"
#include "tests/kernels/cpu/print.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::test {
namespace {

using kernels::DType;

class CpuQ8Kv : public testing::TestWithParam<kernels::cpu::Isa> {
 protected:
  void SetUp() override {
    if (!kernels::cpu::supported(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
  }
  const RunModel model_ = synthetic_model(DType::f16, kKvShape);
  std::unique_ptr<device::Executor> executor(std::uint32_t threads = 2) const {
    return cpu_executor(model_, DType::q8_0, GetParam(), threads);
  }
};

TEST_P(CpuQ8Kv, AloneEqualsBatched) {
  expect_alone_equals_batched(*executor(), model_.vocab());
}

TEST_P(CpuQ8Kv, WholeEqualsChunked) {
  expect_whole_equals_chunked(*executor(), model_.vocab());
}

TEST_P(CpuQ8Kv, OneThreadEqualsTwo) {
  EXPECT_EQ(last_of_900(*executor(1), model_.vocab(), 1), last_of_900(*executor(2), model_.vocab(), 20));
}

TEST_P(CpuQ8Kv, ACopiedBlockEqualsAComputedOne) {
  expect_copied_block_equals_computed(*executor(), model_.vocab());
}

TEST_P(CpuQ8Kv, WindowsToo) {
  for (const std::string_view shape : kWindowed) {
    const auto m = synthetic_model(DType::f16, shape);
    const auto device = cpu_executor(m, DType::q8_0, GetParam());
    expect_alone_equals_batched(*device, m.vocab());
    expect_whole_equals_chunked(*device, m.vocab());
  }
}

TEST_P(CpuQ8Kv, IsCloseToF16AndIsNotF16) {
  const auto f16 = cpu_executor(model_, DType::f16, GetParam());
  const double error =
      relative_error(last_of_900(*executor(), model_.vocab(), 1), last_of_900(*f16, model_.vocab(), 1));
  EXPECT_GT(error, 1e-5);
  EXPECT_LT(error, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuQ8Kv,
                         testing::ValuesIn(kernels::cpu::built_isas().begin(),
                                           kernels::cpu::built_isas().end()),
                         [](const auto& i) { return std::string(kernels::cpu::to_string(i.param)); });

TEST(Q8Kv, HoldsNearlyTwiceTheTokensInTheSameBytes) {
  const auto m = synthetic_model(DType::f16, kKvShape);
  const auto f16 = cpu_executor(m, DType::f16), q8_0 = cpu_executor(m, DType::q8_0);
  EXPECT_EQ(q8_0->memory().kv_bytes,
            graph::kv_layout(m.file->config(), DType::q8_0).block_bytes() * kRunBlocks);
  EXPECT_EQ(f16->memory().kv_bytes * 17, q8_0->memory().kv_bytes * 32);
}

// What the demo model was trained to say (its held-out questions are asked by tests/bench/kv_quality).
constexpr std::string_view kTexts[] = {
    "<|im_start|>user\nWhich engine for a Mac?<|im_end|>\n<|im_start|>assistant\nUse MLX. It is built for "
    "Metal "
    "and unified memory, so nothing is copied between CPU and GPU. In Flyball the Vulkan engine plays this "
    "part.<|im_end|>\n",
    "<|im_start|>user\nWhat is prefill?<|im_end|>\n<|im_start|>assistant\nPrefill reads the whole prompt at "
    "once "
    "and fills the KV cache. It is bound by compute, so attention kernels and chunked prefill "
    "matter.<|im_end|>\n",
    "<|im_start|>user\nWhat is GQA?<|im_end|>\n<|im_start|>assistant\nGQA is grouped query attention: "
    "several "
    "query heads share one key and value head, so the KV cache gets smaller.<|im_end|>\n"};

// Logits after every token of the text.
Rows logits_of(device::Executor& executor, const std::vector<Token>& tokens, std::uint32_t vocab) {
  Rows rows;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    auto row = run_step(executor, {{{tokens[i]}, i, {4, 9, 2, 7, 5, 1}, true}}, vocab);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

double loss(const std::vector<float>& logits, Token next) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  return most + std::log(sum) - logits[static_cast<std::size_t>(next)];
}

TEST(Q8Kv, CostsTheDemoModelNextToNothing) {
  const auto bytes = model::embedded_demo_model();
  if (bytes.empty()) GTEST_SKIP() << "this build has no embedded demo model";
  RunModel m;
  m.file = model::ModelFile::from_bytes(bytes).value();
  const auto tokenizer = text::Tokenizer::load(m.file->gguf()).value();
  const auto f16 = cpu_executor(m, DType::f16), q8_0 = cpu_executor(m, DType::q8_0);
  double difference = 0, spread = 0, f16_loss = 0, q8_0_loss = 0;
  std::size_t n = 0, n_logits = 0;
  for (const std::string_view text : kTexts) {
    const auto tokens = tokenizer->encode(text, {});
    const Rows a = logits_of(*f16, tokens, m.vocab()), b = logits_of(*q8_0, tokens, m.vocab());
    ASSERT_EQ(a.size(), tokens.size());
    ASSERT_EQ(b.size(), tokens.size());
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i, ++n) {
      f16_loss += loss(a[i], tokens[i + 1]);
      q8_0_loss += loss(b[i], tokens[i + 1]);
      for (std::size_t t = 0; t < a[i].size(); ++t, ++n_logits) {
        difference += std::abs(double{a[i][t]} - b[i][t]);
        spread += std::abs(double{a[i][t]});
      }
    }
  }
  std::cout << "mean logit difference " << difference / static_cast<double>(n_logits) << " of a mean size of "
            << spread / static_cast<double>(n_logits) << "; loss " << f16_loss / static_cast<double>(n)
            << " with f16, " << q8_0_loss / static_cast<double>(n) << " with q8_0, over " << n << " tokens\n";
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference / static_cast<double>(n_logits), 0.05);
  EXPECT_LT(std::abs(q8_0_loss - f16_loss) / static_cast<double>(n), 0.005);
}

}  // namespace
}  // namespace flyball::test
