// Decoder and CPU device: against the naive forward pass, and against themselves: alone equals batched, whole
// equals chunked, one thread equals many, compound verbs equal their default bodies. Bit for bit.
#include "backends/graph/decoder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/cpu_ops.hpp"
#include "backends/model/synthetic.hpp"
#include "tests/engine/naive_forward.hpp"
#include "tests/kernels/print.hpp"

namespace flyball {
namespace {

using kernels::DType;
using kernels::cpu::Isa;
constexpr std::uint32_t kBlocks = 24;

struct TestModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<model::ModelFile> file;
};

constexpr std::string_view kLlama = "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320";
// Every family, and what is its own: biases; heads of another size, normed; experts.
constexpr std::string_view kFamilies[] = {
    kLlama, "arch=qwen2,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
    "arch=qwen3,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320",
    "dim=64,layers=2,heads=4,kv_heads=2,vocab=320,experts=4,experts_used=2,expert_ffn=64",
    "arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,vocab=320,experts=8,experts_used=3,expert_"
    "ffn=32"};
constexpr std::string_view kMixture = kFamilies[4];

TestModel make_model(DType type, std::string_view shape = kLlama) {
  auto spec = model::parse_synthetic_shape(shape).value();
  spec.type = type;
  TestModel m;
  m.bytes = model::synthetic_bytes(spec).value();
  m.file = model::ModelFile::from_bytes(m.bytes).value();
  return m;
}

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (const Isa isa : kernels::cpu::built_isas())
    if (kernels::cpu::supported(isa)) list.push_back(isa);
  return list;
}

std::unique_ptr<engine::Executor> make_executor(const TestModel& m, Isa isa = kernels::cpu::best_isa(),
                                                std::uint32_t threads = 2) {
  cpu::CpuDeviceOptions options;
  options.isa = isa;
  options.threads = threads;
  options.max_step_tokens = 64;
  options.max_logit_rows = 8;
  auto executor = cpu::make_cpu_executor(*m.file, options).value();
  EXPECT_TRUE(executor->reserve_kv(graph::kv_layout(m.file->config()), kBlocks));
  return executor;
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

std::vector<std::vector<float>> run(engine::Executor& executor, const std::vector<Piece>& pieces,
                                    std::uint32_t vocab) {
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
  const auto logits = executor.wait(*step).value().logits;
  std::vector<std::vector<float>> rows;
  for (std::size_t at = 0; at < logits.size(); at += vocab)
    rows.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(at),
                      logits.begin() + static_cast<std::ptrdiff_t>(at + vocab));
  return rows;
}

double relative_error(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

class DecoderTypes : public testing::TestWithParam<DType> {};

// The bound is for what the engine rounds on purpose: KV to f16, activations to int8 beside quantized
// weights.
TEST_P(DecoderTypes, AgreesWithTheNaiveForwardPass) {
  const bool k_quant = kernels::block_shape(GetParam()).values == 256;
  const auto m = make_model(GetParam(), k_quant ? "dim=256,layers=2,heads=4,kv_heads=2,ffn=256,vocab=320"
                                                : "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320");
  const std::uint32_t vocab = m.file->config().vocab_size;
  const auto tokens = some_tokens(21, vocab);
  const auto expected = test::naive_forward(*m.file, tokens);
  const bool quantized = kernels::block_shape(GetParam()).values > 1;
  for (const Isa isa : isas()) {
    auto executor = make_executor(m, isa);
    const auto rows = run(*executor, {{tokens, 0, {5, 3}, true}}, vocab);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_LT(relative_error(rows[0], expected), quantized ? 2e-2 : 1e-3) << kernels::cpu::to_string(isa);
  }
}
INSTANTIATE_TEST_SUITE_P(AllTypes, DecoderTypes, testing::ValuesIn(kernels::kAllDTypes),
                         [](const auto& type) { return std::string(kernels::to_string(type.param)); });

TEST(Decoder, AgreesInEveryFamily) {
  for (const std::string_view shape : kFamilies) {
    for (const DType type : {DType::f32, DType::q8_0}) {
      const auto m = make_model(type, shape);
      const std::uint32_t vocab = m.file->config().vocab_size;
      const auto tokens = some_tokens(21, vocab);
      const auto expected = test::naive_forward(*m.file, tokens);
      for (const Isa isa : isas()) {
        SCOPED_TRACE(std::string(shape) + " " + std::string(kernels::to_string(type)) + " " +
                     kernels::cpu::to_string(isa));
        auto executor = make_executor(m, isa);
        const auto rows = run(*executor, {{tokens, 0, {5, 3}, true}}, vocab);
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_LT(relative_error(rows[0], expected), type == DType::f32 ? 1e-3 : 2e-2);
      }
    }
  }
}

// Experts of K-quants: rows of 256 inside a three-dimensional tensor.
TEST(Decoder, AgreesOnExpertsInKQuants) {
  for (const DType type : {DType::q4_k, DType::q5_k, DType::q6_k}) {
    const auto m = make_model(type,
                              "arch=qwen3moe,dim=256,layers=1,heads=4,kv_heads=2,vocab=320,experts=4,experts_"
                              "used=2,expert_ffn=256");
    const auto tokens = some_tokens(9, 320);
    auto executor = make_executor(m);
    const auto rows = run(*executor, {{tokens, 0, {0}, true}}, 320);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_LT(relative_error(rows[0], test::naive_forward(*m.file, tokens)), 2e-2)
        << kernels::to_string(type);
  }
}

TEST(Decoder, AgreesOnOddShapes) {
  struct Shape {
    std::uint32_t dim, layers, heads, kv_heads, head_dim, ffn, vocab;
  };
  for (const Shape& shape :
       {Shape{64, 1, 4, 1, 0, 100, 321}, Shape{48, 3, 3, 3, 0, 40, 333}, Shape{64, 2, 2, 1, 16, 96, 320}}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(std::to_string(shape.dim) + " tied " + std::to_string(tied));
      model::SyntheticSpec spec;
      spec.dim = shape.dim;
      spec.layers = shape.layers;
      spec.heads = shape.heads;
      spec.kv_heads = shape.kv_heads;
      spec.head_dim = shape.head_dim;
      spec.ffn = shape.ffn;
      spec.vocab = shape.vocab;
      spec.type = DType::f32;
      spec.tied = tied;
      TestModel m;
      m.bytes = model::synthetic_bytes(spec).value();
      m.file = model::ModelFile::from_bytes(m.bytes).value();
      const auto tokens = some_tokens(18, spec.vocab, 5);
      auto executor = make_executor(m);
      const auto rows = run(*executor, {{tokens, 0, {0, 1}, true}}, spec.vocab);
      ASSERT_EQ(rows.size(), 1U);
      EXPECT_LT(relative_error(rows[0], test::naive_forward(*m.file, tokens)), 1e-3);
    }
  }
}

struct Variant {
  DType type;
  std::string_view shape = kLlama;
};
std::vector<Variant> variants() {
  std::vector<Variant> all = {{DType::f32}, {DType::bf16}, {DType::q4_0}, {DType::q8_0}};
  for (const std::string_view shape : kFamilies) all.push_back({DType::q4_0, shape});
  return all;
}

TEST(Decoder, AloneEqualsBatched) {
  for (const auto& [type, shape] : variants()) {
    const auto m = make_model(type, shape);
    const std::uint32_t vocab = m.file->config().vocab_size;
    for (const Isa isa : isas()) {
      SCOPED_TRACE(std::string(shape) + " " + std::string(kernels::to_string(type)) + " " +
                   kernels::cpu::to_string(isa));
      const auto a = some_tokens(5, vocab, 1), b = some_tokens(19, vocab, 2), c = some_tokens(1, vocab, 3);
      auto executor = make_executor(m, isa);
      const auto together =
          run(*executor, {{a, 0, {7}, true}, {b, 0, {2, 9}, true}, {c, 0, {4}, true}}, vocab);
      const auto decode =
          run(*executor, {{{11}, 5, {7}, true}, {{12}, 19, {2, 9}, true}, {{13}, 1, {4}, true}}, vocab);
      auto other = make_executor(m, isa, 1);
      EXPECT_EQ(run(*other, {{a, 0, {0}, true}}, vocab)[0], together[0]);
      EXPECT_EQ(run(*other, {{{11}, 5, {0}, true}}, vocab)[0], decode[0]);
      EXPECT_EQ(run(*other, {{b, 0, {1, 2}, true}}, vocab)[0], together[1]);
      EXPECT_EQ(run(*other, {{{12}, 19, {1, 2}, true}}, vocab)[0], decode[1]);
      EXPECT_EQ(run(*other, {{c, 0, {3}, true}}, vocab)[0], together[2]);
      EXPECT_EQ(run(*other, {{{13}, 1, {3}, true}}, vocab)[0], decode[2]);
    }
  }
}

TEST(Decoder, WholeEqualsChunkedEqualsTokenByToken) {
  for (const auto& [type, shape] : variants()) {
    const auto m = make_model(type, shape);
    const std::uint32_t vocab = m.file->config().vocab_size;
    const auto tokens = some_tokens(37, vocab, 9);
    const std::vector<std::uint32_t> blocks = {8, 1, 6};
    auto executor = make_executor(m);
    const auto whole = run(*executor, {{tokens, 0, blocks, true}}, vocab)[0];
    for (const std::size_t chunk : {1UL, 3UL, 16UL, 30UL}) {
      auto other = make_executor(m);
      std::vector<float> last;
      for (std::size_t at = 0; at < tokens.size(); at += chunk) {
        const std::size_t n = std::min(chunk, tokens.size() - at);
        const bool end = at + n == tokens.size();
        const auto rows = run(*other,
                              {{{tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                 tokens.begin() + static_cast<std::ptrdiff_t>(at + n)},
                                static_cast<std::uint32_t>(at),
                                blocks,
                                end}},
                              vocab);
        ASSERT_EQ(rows.size(), end ? 1U : 0U);
        if (end) last = rows[0];
      }
      EXPECT_EQ(last, whole) << shape << " " << kernels::to_string(type) << " in chunks of " << chunk;
    }
  }
}

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
  void rope(std::uint32_t n, graph::Buffer q, graph::Buffer k) override { ops_.rope(n, q, k); }
  void kv_store(std::uint32_t n, std::uint32_t l, graph::Buffer k, graph::Buffer v) override {
    ops_.kv_store(n, l, k, v);
  }
  void attend(std::uint32_t n, std::uint32_t l, graph::Buffer q, graph::Buffer out) override {
    ops_.attend(n, l, q, out);
  }
  void swiglu(std::uint32_t n, graph::Buffer g, graph::Buffer u) override { ops_.swiglu(n, g, u); }
  void add(std::uint32_t n, graph::Buffer x, graph::Buffer y) override { ops_.add(n, x, y); }
  void gather_wanted(graph::Buffer x, graph::Buffer out) override { ops_.gather_wanted(x, out); }
  void moe_route(std::uint32_t n, graph::Buffer router) override { ops_.moe_route(n, router); }
  void moe_matmul(std::uint32_t n, graph::Buffer x, std::span<const graph::Projection> p) override {
    ops_.moe_matmul(n, x, p);
  }
  void moe_swiglu_matmul_add(std::uint32_t n, graph::Buffer g, graph::Buffer u, graph::WeightRef w,
                             graph::Buffer r) override {
    ops_.moe_swiglu_matmul_add(n, g, u, w, r);
  }

 private:
  graph::Ops& ops_;
};

// Logits of rows 3 and 19 of a prompt, then of one decoded token.
std::vector<float> prompt_and_token(const model::ModelConfig& config, cpu::CpuOps& cpu, graph::Ops& ops) {
  EXPECT_TRUE(cpu.reserve_kv(graph::kv_layout(config), 4));
  const auto tokens = some_tokens(20, config.vocab_size);
  std::vector<std::uint32_t> positions(20), sequence_of(20, 0);
  std::iota(positions.begin(), positions.end(), 0U);
  const std::vector<std::uint32_t> table = {2, 0};
  const std::span<const std::uint32_t> tables[] = {table};
  const std::vector<std::uint32_t> wanted = {3, 19};
  const float* logits = cpu.buffer(graph::Buffer::logits);
  graph::decode_step(config, {tokens, positions, sequence_of, tables, wanted, false}, ops);
  std::vector<float> out(logits, logits + 2 * config.vocab_size);
  const Token next[] = {7};
  const std::uint32_t position[] = {20};
  const std::uint32_t zero[] = {0};
  graph::decode_step(config, {next, position, zero, tables, zero, true}, ops);
  out.insert(out.end(), logits, logits + config.vocab_size);
  return out;
}

TEST(Decoder, CompoundVerbsEqualTheirDefaultBodies) {
  for (const std::string_view shape : kFamilies) {
    const auto m = make_model(DType::q4_0, shape);
    const model::ModelConfig& config = m.file->config();
    cpu::ThreadPool pool(2);
    const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
    const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool).value();
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 32, 4).value();
    PlainOps plain(*ops);
    const auto fused = prompt_and_token(config, *ops, *ops);
    EXPECT_EQ(prompt_and_token(config, *ops, plain), fused) << shape;
  }
}

// Room for the experts of one layer: the other layer's give way at every step, and the result is the same.
// From a mapped file, whose pages are given back after each packing.
TEST(Experts, ThatDoNotFitArePackedWhenNeeded) {
  const auto path =
      std::filesystem::temp_directory_path() / ("flyball_experts_" + std::to_string(::getpid()) + ".gguf");
  auto spec = model::parse_synthetic_shape(kMixture).value();
  spec.experts = 16;
  spec.expert_ffn = 256;  // matrices of more than a page
  ASSERT_TRUE(model::write_synthetic_file(spec, path, 1));
  TestModel m;
  m.file = model::ModelFile::open(path).value();
  std::filesystem::remove(path);  // the mapping keeps it
  const model::ModelConfig& config = m.file->config();
  cpu::ThreadPool pool(2);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto all = cpu::CpuWeights::load(*m.file, kernels, pool).value();
  const std::uint64_t layer_bytes = all.experts()->bytes() / config.n_layers;
  const auto few = cpu::CpuWeights::load(*m.file, kernels, pool, layer_bytes).value();
  EXPECT_EQ(all.experts()->packed_experts(), config.n_layers * config.n_experts);
  EXPECT_EQ(few.experts()->packed_experts(), 0U);
  EXPECT_EQ(few.experts()->bytes(), layer_bytes);
  EXPECT_EQ(all.bytes() - few.bytes(), layer_bytes);
  const auto logits = [&](const cpu::CpuWeights& weights) {
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 32, 4).value();
    return prompt_and_token(config, *ops, *ops);
  };
  EXPECT_EQ(logits(few), logits(all));
  EXPECT_EQ(all.experts()->packed_experts(), config.n_layers * config.n_experts);
  EXPECT_GT(few.experts()->packed_experts(), config.n_experts);  // some more than once

  const auto too_few = cpu::CpuWeights::load(*m.file, kernels, pool, layer_bytes - 1);
  ASSERT_FALSE(too_few);
  EXPECT_EQ(too_few.error().code, ErrorCode::insufficient_memory);
  EXPECT_NE(too_few.error().message.find(std::to_string(layer_bytes) + " bytes are needed"),
            std::string::npos);
}

TEST(Experts, AreSeenToLoad) {
  const auto m = make_model(DType::q4_0, kMixture);
  cpu::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  std::uint64_t last = 0, total = 0, dense = 0, calls = 0;
  const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool, 0, [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    if (all - done >= cpu::ExpertCache::file_bytes(*m.file)) dense = done;
    ++calls;
  });
  ASSERT_TRUE(weights);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total - dense, cpu::ExpertCache::file_bytes(*m.file));
  EXPECT_GT(calls, m.file->config().n_layers);
}

TEST(Experts, ThatNobodyIsRoutedToAreNotRead) {
  const auto m = make_model(DType::q4_0, kMixture);
  const model::ModelConfig& config = m.file->config();
  cpu::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto all = cpu::CpuWeights::load(*m.file, kernels, pool).value();
  const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool, all.experts()->bytes() - 1).value();
  auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 4, 1).value();
  ASSERT_TRUE(ops->reserve_kv(graph::kv_layout(config), 1));
  const Token token[] = {5};
  const std::uint32_t zero[] = {0};
  const std::span<const std::uint32_t> tables[] = {zero};
  for (int i = 0; i < 3; ++i) {  // the same experts again: nothing more to pack
    graph::decode_step(config, {token, zero, zero, tables, zero, true}, *ops);
    EXPECT_EQ(weights.experts()->packed_experts(), config.n_layers * config.n_experts_used);
  }
}

TEST(Experts, RowsAreGroupedByExpert) {
  cpu::ExpertGroups groups;
  groups.reserve(5, 8);
  const std::uint32_t choices[] = {3, 1, 3, 0, 1, 3};  // three rows of two
  for (int i = 0; i < 2; ++i) {
    groups.group(choices);
    ASSERT_EQ(groups.groups().size(), 3U);
    const std::uint32_t experts[] = {0, 1, 3}, ends[] = {1, 3, 6};
    for (std::size_t g = 0; g < 3; ++g) {
      EXPECT_EQ(groups.experts()[g], experts[g]);
      EXPECT_EQ(groups.groups()[g].expert, experts[g]);
      EXPECT_EQ(groups.groups()[g].end, ends[g]);
      for (std::uint32_t place = groups.groups()[g].begin; place < ends[g]; ++place)
        EXPECT_EQ(choices[groups.choice_at(place)], experts[g]);
    }
    for (std::uint32_t choice = 0; choice < 6; ++choice)
      EXPECT_EQ(groups.choice_at(groups.place_of(choice)), choice);
  }
}

TEST(Decoder, AStepThatIsStoppedCanBeComputedAgain) {
  const auto m = make_model(DType::q8_0);
  const model::ModelConfig& config = m.file->config();
  cpu::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool).value();
  const auto tokens = some_tokens(16, config.vocab_size);
  std::vector<std::uint32_t> positions(16), sequence_of(16, 0);
  std::iota(positions.begin(), positions.end(), 0U);
  const std::uint32_t table[] = {0}, wanted[] = {15};
  const std::span<const std::uint32_t> tables[] = {table};
  const graph::StepInputs inputs{tokens, positions, sequence_of, tables, wanted, false};
  const auto logits = [&](bool stop_first) {
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 16, 1).value();
    EXPECT_TRUE(ops->reserve_kv(graph::kv_layout(config), 1));
    std::atomic<bool> stop{true};
    if (stop_first) {
      EXPECT_FALSE(graph::decode_step(config, inputs, *ops, &stop));
    }
    stop = false;
    EXPECT_TRUE(graph::decode_step(config, inputs, *ops, &stop));
    const float* row = ops->buffer(graph::Buffer::logits);
    return std::vector<float>(row, row + config.vocab_size);
  };
  EXPECT_EQ(logits(true), logits(false));
}

// YaRN with every frequency above beta_fast leaves all angles alone: only its magnitude remains.
TEST(Decoder, YarnBlendsBetweenTheFilesBetas) {
  const auto m = make_model(DType::f32);
  cpu::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto weights = cpu::CpuWeights::load(*m.file, kernels, pool).value();
  const auto logits = [&](const model::RopeConfig& rope) {
    model::ModelConfig config = m.file->config();
    config.rope = rope;
    auto ops = cpu::CpuOps::make(config, kernels, weights, pool, 16, 1).value();
    EXPECT_TRUE(ops->reserve_kv(graph::kv_layout(config), 1));
    const auto tokens = some_tokens(16, config.vocab_size);
    std::vector<std::uint32_t> positions(16), sequence_of(16, 0);
    std::iota(positions.begin(), positions.end(), 0U);
    const std::uint32_t table[] = {0}, wanted[] = {15};
    const std::span<const std::uint32_t> tables[] = {table};
    graph::decode_step(config, {tokens, positions, sequence_of, tables, wanted, false}, *ops);
    const float* row = ops->buffer(graph::Buffer::logits);
    return std::vector<float>(row, row + config.vocab_size);
  };
  const auto difference = [](const std::vector<float>& a, const std::vector<float>& b) {
    float most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
    return most;
  };
  model::RopeConfig magnitude = m.file->config().rope;
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

TEST(CpuExecutor, RefusesStepsThatWouldWriteOutside) {
  const auto m = make_model(DType::f32);
  auto executor = make_executor(m);
  const std::vector<std::uint32_t> one = {0}, outside = {kBlocks};
  const auto refused = [&](std::vector<Token> tokens, engine::StepSequence s) {
    const engine::StepSequence sequences[] = {s};
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
  const auto m = make_model(DType::f32);
  const std::uint32_t vocab = m.file->config().vocab_size;
  auto executor = make_executor(m);
  const auto tokens = some_tokens(9, vocab);
  run(*executor, {{tokens, 0, {3}, true}}, vocab);
  const Token next[] = {5};
  const std::vector<std::uint32_t> original = {3}, copied = {11};
  const engine::StepSequence on_copy[] = {{0, 1, 9, copied, true}};
  const engine::BlockCopy copies[] = {{3, 11}};
  const auto step = executor->submit({next, on_copy}, copies).value();
  const auto got = executor->wait(step).value().logits;
  const std::vector<float> from_copy(got.begin(), got.end());
  EXPECT_EQ(from_copy, run(*executor, {{{5}, 9, original, true}}, vocab)[0]);
  const engine::BlockCopy bad[] = {{0, kBlocks}};
  EXPECT_FALSE(executor->submit({next, on_copy}, bad));
}

TEST(CpuExecutor, LeavesRowsWhole) {
  const auto m = make_model(DType::f32);
  auto executor = make_executor(m);
  EXPECT_EQ(executor->max_candidates(), 0U);
  const Token next[] = {5};
  const std::vector<std::uint32_t> table = {3};
  const engine::StepSequence cut[] = {{0, 1, 0, table, true, 1}};
  EXPECT_FALSE(executor->submit({next, cut}, {}));
}

TEST(CpuExecutor, SaysHowMuchMemoryItLacks) {
  const auto m = make_model(DType::f32);
  cpu::CpuDeviceOptions options;
  auto executor = cpu::make_cpu_executor(*m.file, options).value();
  graph::KvLayout layout = graph::kv_layout(m.file->config());
  layout.block_size = 1U << 24;
  const auto result = executor->reserve_kv(layout, 1U << 24);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::insufficient_memory);
  EXPECT_NE(result.error().message.find("bytes are needed"), std::string::npos);
  EXPECT_NE(result.error().message.find("are free"), std::string::npos);
  layout.block_size = 1U << 31;
  const auto overflowing = executor->reserve_kv(layout, 1U << 31);  // a multiple of 2^64 bytes
  ASSERT_FALSE(overflowing);
  EXPECT_EQ(overflowing.error().code, ErrorCode::insufficient_memory);
}

TEST(CpuExecutor, CountsItsMemory) {
  const auto m = make_model(DType::q8_0);
  auto executor = make_executor(m);
  const auto plan = executor->memory();
  EXPECT_GE(plan.weight_bytes, m.file->weight_bytes() * 9 / 10);
  EXPECT_EQ(plan.kv_bytes, graph::kv_layout(m.file->config()).block_bytes() * kBlocks);
  EXPECT_GE(plan.scratch_bytes, graph::plan_bytes(graph::plan_buffers(m.file->config(), 64, 8)));
}

}  // namespace
}  // namespace flyball
