// Decoder and CPU operations: compound verbs equal their default bodies bit for bit, a stopped step can be
// run again, and YaRN's betas count.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/backends/cpu/cpu_ops_runs.hpp"
#include "tests/backends/model/model_shapes.hpp"

namespace flyball::test {
namespace {

using kernels::DType;

// Forwards the plain verbs and leaves the compound ones to their default bodies.
class PlainOps final : public graph::Ops {
 public:
  explicit PlainOps(graph::Ops& ops) : ops_(ops) {}
  void begin(const graph::StepInputs& in) override { ops_.begin(in); }
  void embed(std::uint32_t n, graph::WeightRef w, graph::Buffer out) override { ops_.embed(n, w, out); }
  void rms_norm(std::uint32_t n, graph::Buffer x, graph::WeightRef w, graph::Buffer out) override {
    ops_.rms_norm(n, x, w, out);
  }
  void matmul(std::uint32_t n, graph::Buffer x, std::span<const graph::Projection> p) override {
    ops_.matmul(n, x, p);
  }
  void bias(std::uint32_t n, graph::Buffer x, graph::WeightRef b) override { ops_.bias(n, x, b); }
  void head_norm(std::uint32_t n, graph::Buffer x, graph::WeightRef w) override { ops_.head_norm(n, x, w); }
  void rope_kv_store(std::uint32_t n, std::uint32_t l, graph::Buffer q, graph::Buffer k,
                     graph::Buffer v) override {
    ops_.rope_kv_store(n, l, q, k, v);
  }
  void attend(std::uint32_t n, std::uint32_t l, graph::Buffer q, graph::Buffer out) override {
    ops_.attend(n, l, q, out);
  }
  void glu(std::uint32_t n, graph::Buffer g, graph::Buffer u) override { ops_.glu(n, g, u); }
  void softcap(std::uint32_t n, graph::Buffer x, float cap) override { ops_.softcap(n, x, cap); }
  void add(std::uint32_t n, graph::Buffer x, graph::Buffer y) override { ops_.add(n, x, y); }
  void gather_wanted(graph::Buffer x, graph::Buffer out) override { ops_.gather_wanted(x, out); }
  void moe_route(std::uint32_t n, graph::Buffer router) override { ops_.moe_route(n, router); }
  void moe_matmul(std::uint32_t n, graph::Buffer x, std::span<const graph::Projection> p) override {
    ops_.moe_matmul(n, x, p);
  }
  void moe_glu_matmul_add(std::uint32_t n, graph::Buffer g, graph::Buffer u, graph::WeightRef w,
                          graph::Buffer r) override {
    ops_.moe_glu_matmul_add(n, g, u, w, r);
  }

 private:
  graph::Ops& ops_;
};

TEST(Decoder, CompoundVerbsEqualTheirDefaultBodies) {
  for (const std::string_view shape : kFamilies) {
    const auto m = synthetic_model(DType::q4_0, shape);
    const model::ModelConfig& config = m.file->config();
    device::ThreadPool pool(2);
    const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
    const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool).value();
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 32, 4).value();
    PlainOps plain(*ops);
    const auto fused = prompt_and_token(config, *ops, *ops);
    EXPECT_EQ(prompt_and_token(config, *ops, plain), fused) << shape;
  }
}

TEST(Decoder, AStepThatIsStoppedCanBeComputedAgain) {
  const auto m = synthetic_model(DType::q8_0, kLlama);
  const model::ModelConfig& config = m.file->config();
  device::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool).value();
  const Prompt prompt(16, config.vocab_size, {0}, {15});
  const auto logits = [&](bool stop_first) {
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 16, 1).value();
    EXPECT_TRUE(ops->reserve_kv(graph::kv_layout(config), 1));
    if (stop_first) {
      std::uint32_t layers = 0;
      EXPECT_FALSE(
          graph::decode_step(config, prompt.inputs(), *ops, [&] { return ++layers < config.n_layers; }));
    }
    EXPECT_TRUE(graph::decode_step(config, prompt.inputs(), *ops, [] { return true; }));
    const float* row = ops->buffer(graph::Buffer::logits);
    return std::vector<float>(row, row + config.vocab_size);
  };
  EXPECT_EQ(logits(true), logits(false));
}

// YaRN with every frequency above beta_fast leaves all angles alone: only its magnitude remains.
TEST(Decoder, YarnBlendsBetweenTheFilesBetas) {
  const auto m = synthetic_model(DType::f32, kLlama);
  device::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool).value();
  const auto logits = [&](const model::RopeConfig& rope) {
    model::ModelConfig config = m.file->config();
    config.ropes[0] = rope;
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 16, 1).value();
    EXPECT_TRUE(ops->reserve_kv(graph::kv_layout(config), 1));
    const Prompt prompt(16, config.vocab_size, {0}, {15});
    graph::decode_step(config, prompt.inputs(), *ops);
    const float* row = ops->buffer(graph::Buffer::logits);
    return std::vector<float>(row, row + config.vocab_size);
  };
  const auto difference = [](const std::vector<float>& a, const std::vector<float>& b) {
    float most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
    return most;
  };
  model::RopeConfig magnitude = m.file->config().ropes[0];
  model::RopeConfig yarn = magnitude;
  magnitude.attn_factor = static_cast<float>(1.0 + 0.1 * std::log(4.0));
  yarn.scaling = model::RopeScaling::yarn;
  yarn.factor = 4.0F;
  yarn.original_context = 256;
  const auto blended = logits(yarn);
  yarn.beta_fast = yarn.beta_slow = 1e-3F;
  EXPECT_LT(difference(logits(yarn), logits(magnitude)), 1e-4F);
  EXPECT_GT(difference(logits(yarn), blended), 1e-3F);
}

}  // namespace
}  // namespace flyball::test
