// What fits where: by hand, against what the engines leave a KV cache, and against plan_memory by search.
#include "backends/graph/planner.hpp"

#include <gtest/gtest.h>

#include <random>

#include "backends/graph/layer_split.hpp"
#include "backends/model/synthetic_outline.hpp"

namespace flyball::graph {
namespace {

model::ModelConfig small() {
  model::ModelConfig config;
  config.n_layers = 4;
  config.dim = 512;
  config.ffn_dim = 1536;
  config.n_heads = 8;
  config.n_kv_heads = 2;
  config.head_dim = 64;
  config.vocab_size = 2048;
  config.context_length = 2048;
  return config;
}

TEST(Planner, TheLastByteDecides) {
  const auto config = small();
  const PlanShape shape{.context = 1024, .sequences = 3};
  const MemoryPlan plan = plan_memory(config, 10'000'000, shape);
  EXPECT_EQ(plan.kv_bytes, 3ULL * 1024 * 4 * 2 * 64 * 2 * 2);  // layers, heads, values, K and V, bytes
  const auto in = [&](std::uint64_t bytes) { return plan_pool(config, plan, shape, {"", bytes, 8}); };
  const PoolPlan exact = in(plan.total());
  EXPECT_TRUE(exact.fits);
  EXPECT_EQ(exact.sequences, 3U);
  EXPECT_EQ(exact.longest_context, 1024U);
  EXPECT_EQ(exact.kv_room, plan.kv_bytes);
  const PoolPlan less = in(plan.total() - 1);
  EXPECT_FALSE(less.fits);
  EXPECT_EQ(less.sequences, 2U);
  EXPECT_EQ(less.longest_context, 1008U);  // a block of 16 less
  const PoolPlan no_kv = in(plan.weight_bytes + plan.scratch_bytes);
  EXPECT_FALSE(no_kv.fits);
  EXPECT_EQ(no_kv.missing, 0U);
  EXPECT_EQ(no_kv.longest_context, 0U);
  const PoolPlan too_small = in(plan.weight_bytes + plan.scratch_bytes - 7);
  EXPECT_EQ(too_small.missing, 7U);
  EXPECT_EQ(too_small.kv_room, 0U);
  EXPECT_FALSE(too_small.fits);
  EXPECT_EQ(in(1ULL << 50).longest_context, 2048U);  // no longer than the model was made for
}

// The longest context is planned to fit, and a block more is not.
TEST(Planner, TheLongestContextIsTheLongest) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    auto config = small();
    config.n_layers = 1 + static_cast<std::uint32_t>(random() % 40);
    config.n_kv_heads = 1U << (random() % 4);
    config.context_length = 1'000'000;
    const PlanShape shape{.context = 256,
                          .sequences = 1 + static_cast<std::uint32_t>(random() % 20),
                          .kv_type = random() % 2 ? kernels::DType::f16 : kernels::DType::q8_0};
    const PlanPool pool{"", random() % 5'000'000'000, 1 + static_cast<std::uint32_t>(random() % 8)};
    const MemoryPlan plan = plan_memory(config, random() % 1'000'000'000, shape);
    const PoolPlan got = plan_pool(config, plan, shape, pool);
    const auto kv_at = [&](std::uint32_t context) {
      PlanShape longer = shape;
      longer.context = context;
      return plan_memory(config, plan.weight_bytes, longer).kv_bytes;
    };
    EXPECT_EQ(got.fits, got.longest_context >= shape.context) << "case " << i;
    EXPECT_LE(kv_at(got.longest_context), got.kv_room) << "case " << i;
    if (got.longest_context < config.context_length) {
      EXPECT_GT(kv_at(got.longest_context + 1), got.kv_room) << "case " << i;
    }
  }
}

TEST(Planner, LeavesACacheWhatTheEnginesDo) {
  const auto config = small();
  const PlanShape shape;
  const MemoryPlan plan = plan_memory(config, 1000, shape);
  const std::uint64_t left = 800'000'000;
  const std::uint64_t bytes = plan.weight_bytes + plan.scratch_bytes + left;
  const auto engines = [&](bool unified) {
    const DevicePart part{{"device", left, unified}, config.n_layers};
    return kv_room({&part, 1}, left).bytes;
  };
  const auto near = [](std::uint64_t a, std::uint64_t b) {
    EXPECT_LE(std::max(a, b) - std::min(a, b), 64U) << a << ", " << b;  // rounding
  };
  near(plan_pool(config, plan, shape, {"", bytes, kMachineKvEighths}).kv_room, engines(true));
  near(plan_pool(config, plan, shape, {"", bytes, kDeviceKvEighths}).kv_room, engines(false));
}

TEST(Planner, AttentionByItsHeads) {
  auto config = small();
  EXPECT_STREQ(attention_kind(config), "grouped-query");
  config.n_kv_heads = 1;
  EXPECT_STREQ(attention_kind(config), "multi-query");
  config.n_kv_heads = config.n_heads;
  EXPECT_STREQ(attention_kind(config), "multi-head");
  EXPECT_EQ(windowed_layers(config), 0U);
  config.layers = {{512, true}, {512, true}, {0, false}, {512, true}};
  EXPECT_EQ(windowed_layers(config), 3U);
}

// An outline says what the file would say.
TEST(SyntheticOutline, IsTheFileWithoutItsWeights) {
  for (const char* text :
       {"tiny", "small", "tiny,arch=qwen3moe,experts=8,experts_used=2,expert_ffn=128", "tiny,rope=llama3",
        "tiny,arch=gemma3,window=32", "tiny,arch=phi3,rope=longrope", "tiny,arch=qwen2,context=4096"}) {
    const auto spec = model::parse_synthetic_shape(text);
    ASSERT_TRUE(spec) << text << ": " << spec.error().message;
    const auto outline = model::SyntheticOutline::make(*spec);
    ASSERT_TRUE(outline) << text << ": " << outline.error().message;
    const auto bytes = model::synthetic_bytes(*spec);
    ASSERT_TRUE(bytes) << text;
    const auto file = model::ModelFile::from_bytes(*bytes);
    ASSERT_TRUE(file) << text << ": " << file.error().message;
    const model::ModelFile& drawn = outline->file();
    EXPECT_EQ(drawn.weight_bytes(), (*file)->weight_bytes()) << text;
    EXPECT_EQ(drawn.token_weight_bytes(), (*file)->token_weight_bytes()) << text;
    EXPECT_EQ(drawn.parameter_count(), (*file)->parameter_count()) << text;
    EXPECT_EQ(drawn.active_parameter_count(), (*file)->active_parameter_count()) << text;
    EXPECT_EQ(drawn.config().context_length, (*file)->config().context_length) << text;
    EXPECT_EQ(windowed_layers(drawn.config()), windowed_layers((*file)->config())) << text;
  }
}

TEST(SyntheticOutline, OfModelsLargerThanTheMachine) {
  auto spec = model::parse_synthetic_shape("mixtral-8x7b");
  ASSERT_TRUE(spec);
  spec->type = kernels::DType::f32;
  const auto outline = model::SyntheticOutline::make(*spec);
  ASSERT_TRUE(outline) << outline.error().message;
  EXPECT_GT(outline->file().weight_bytes(), 180'000'000'000U);
  spec->dim = 0;
  EXPECT_FALSE(model::SyntheticOutline::make(*spec));
}

}  // namespace
}  // namespace flyball::graph
