// The plan's sums, by hand for one shape, and its largest inputs.
#include "backends/graph/memory_plan.hpp"

#include <gtest/gtest.h>

namespace flyball::graph {
namespace {

model::ModelConfig tinyllama() {
  model::ModelConfig config;
  config.n_layers = 22;
  config.dim = 2048;
  config.ffn_dim = 5632;
  config.n_heads = 32;
  config.n_kv_heads = 4;
  config.head_dim = 64;
  config.vocab_size = 32'000;
  config.context_length = 2048;
  return config;
}

TEST(MemoryPlan, TinyLlamaByHand) {
  const auto layout = kv_layout(tinyllama());
  EXPECT_EQ(layout.block_bytes() / layout.block_size,
            2U * 2 * 22 * 4 * 64);  // K and V of two bytes: 22 KiB a token
  const auto plan = plan_memory(tinyllama(), 1000, {.context = 2048, .sequences = 3, .step_tokens = 256});
  EXPECT_EQ(plan.weight_bytes, 1000U);
  EXPECT_EQ(plan.kv_bytes, 3ULL * 2048 * 22'528);
  // A token: residual, normed, projected; q, attended; k, v; gate, up. A row of logits: residual, attended.
  EXPECT_EQ(plan.scratch_bytes,
            4ULL * (256 * (3 * 2048 + 2 * 2048 + 2 * 256 + 2 * 5632) + 3 * (32'000 + 2 * 2048)));
  EXPECT_EQ(plan.total(), plan.weight_bytes + plan.kv_bytes + plan.scratch_bytes);
}

// q8_0: 34 bytes for 32 values instead of 64.
TEST(MemoryPlan, Q8_0KvByHand) {
  const auto f16 = kv_layout(tinyllama()), q8_0 = kv_layout(tinyllama(), kernels::DType::q8_0);
  EXPECT_EQ(q8_0.block_bytes() / q8_0.block_size, 2U * 22 * 4 * (64 + 2 * 2));  // 11.7 KiB a token
  const auto plan =
      plan_memory(tinyllama(), 1000, {.context = 2048, .sequences = 3, .kv_type = kernels::DType::q8_0});
  EXPECT_EQ(plan.kv_bytes, 3ULL * 2048 * 11'968);
  const std::uint64_t bytes = 1ULL << 30;
  const double tokens =
      static_cast<double>(bytes / q8_0.block_bytes()) / static_cast<double>(bytes / f16.block_bytes());
  EXPECT_NEAR(tokens, 32.0 / 17, 0.001);  // 1.88 times the tokens in the same bytes
}

TEST(MemoryPlan, KvTypesByName) {
  auto config = tinyllama();
  EXPECT_EQ(kv_type("f16", config).value(), kernels::DType::f16);
  EXPECT_EQ(kv_type("q8_0", config).value(), kernels::DType::q8_0);
  for (const char* name : {"", "q4_0", "Q8_0", "f32"}) {
    const auto wrong = kv_type(name, config);
    ASSERT_FALSE(wrong) << name;
    EXPECT_EQ(wrong.error().code, ErrorCode::unsupported_value);
    EXPECT_EQ(wrong.error().param, "kv_type");
  }
  config.head_dim = 80;
  EXPECT_EQ(kv_type("f16", config).value(), kernels::DType::f16);
  const auto wrong = kv_type("q8_0", config);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::unsupported_value);
  EXPECT_NE(wrong.error().message.find("80"), std::string::npos) << wrong.error().message;
}

// Qwen3-30B-A3B: gate and up have a row for each of a token's 8 experts, and there is a router of 128.
TEST(MemoryPlan, ExpertsByHand) {
  model::ModelConfig config;
  config.n_layers = 48;
  config.dim = 2048;
  config.n_heads = 32;
  config.n_kv_heads = 4;
  config.head_dim = 128;
  config.n_experts = 128;
  config.n_experts_used = 8;
  config.expert_ffn_dim = 768;
  config.vocab_size = 151'936;
  const auto plan = plan_memory(config, 0, {.context = 16, .sequences = 1, .step_tokens = 256});
  EXPECT_EQ(plan.scratch_bytes,
            4ULL * (256 * (3 * 2048 + 2 * 4096 + 2 * 512 + 2 * 8 * 768 + 128) + (151'936 + 2048 + 4096)));
}

TEST(MemoryPlan, BlocksAreRoundedUp) {
  const auto layout = kv_layout(tinyllama());
  EXPECT_EQ(kv_blocks(layout, 0), 0U);
  EXPECT_EQ(kv_blocks(layout, 1), 1U);
  EXPECT_EQ(kv_blocks(layout, 16), 1U);
  EXPECT_EQ(kv_blocks(layout, 17), 2U);
}

// The bounds of ModelConfig are such that the largest model at the largest context still fits 64 bits.
TEST(MemoryPlan, LargestShapeDoesNotOverflow) {
  model::ModelConfig config;
  config.n_layers = model::kMaxLayers;
  config.n_heads = config.n_kv_heads = model::kMaxHeads;
  config.head_dim = model::kMaxHeadDim;
  config.dim = model::kMaxDim;
  config.ffn_dim = model::kMaxFfnDim;
  config.vocab_size = model::kMaxVocab;
  const auto plan =
      plan_memory(config, 0, {.context = model::kMaxContext, .sequences = 1, .step_tokens = 4096});
  EXPECT_EQ(plan.kv_bytes, (4ULL << 10 << 10 << 9) * model::kMaxContext);
}

}  // namespace
}  // namespace flyball::graph
