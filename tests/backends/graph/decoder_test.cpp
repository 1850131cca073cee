// Decoder and CPU engine: against the naive forward pass, and against themselves: alone equals batched, whole
// equals chunked, one thread equals many. Bit for bit.
#include "backends/graph/decoder.hpp"

#include <gtest/gtest.h>

#include "tests/backends/cpu/executor_runs.hpp"
#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/graph/naive_forward.hpp"
#include "tests/backends/model/model_shapes.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::test {
namespace {

using kernels::DType;
using kernels::cpu::Isa;

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (const Isa isa : kernels::cpu::built_isas())
    if (kernels::cpu::supported(isa)) list.push_back(isa);
  return list;
}

class DecoderTypes : public testing::TestWithParam<DType> {};

// The bound is for what the engine rounds on purpose: KV to f16, activations to int8 beside quantized
// weights.
TEST_P(DecoderTypes, AgreesWithTheNaiveForwardPass) {
  const auto m = synthetic_model(GetParam(), shape_for(GetParam()));
  const std::uint32_t vocab = m.file->config().vocab_size;
  const auto tokens = random_tokens(21, vocab);
  const auto expected = naive_forward(*m.file, tokens);
  const bool quantized = kernels::block_shape(GetParam()).values > 1;
  for (const Isa isa : isas()) {
    auto executor = cpu_executor(m, DType::f16, isa);
    const auto rows = run_step(*executor, {{tokens, 0, {5, 3}, true}}, vocab);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_LT(relative_error(rows[0], expected), quantized ? 2e-2 : 1e-3) << kernels::cpu::to_string(isa);
  }
}
INSTANTIATE_TEST_SUITE_P(AllTypes, DecoderTypes, testing::ValuesIn(kernels::kAllDTypes),
                         [](const auto& type) { return std::string(kernels::to_string(type.param)); });

TEST(Decoder, AgreesInEveryFamily) {
  for (const std::string_view shape : kFamilies) {
    for (const DType type : {DType::f32, DType::q8_0}) {
      const auto m = synthetic_model(type, shape);
      const std::uint32_t vocab = m.file->config().vocab_size;
      const auto tokens = random_tokens(21, vocab);
      const auto expected = naive_forward(*m.file, tokens);
      for (const Isa isa : isas()) {
        SCOPED_TRACE(std::string(shape) + " " + std::string(kernels::to_string(type)) + " " +
                     kernels::cpu::to_string(isa));
        auto executor = cpu_executor(m, DType::f16, isa);
        const auto rows = run_step(*executor, {{tokens, 0, {5, 3}, true}}, vocab);
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_LT(relative_error(rows[0], expected), type == DType::f32 ? 1e-3 : 2e-2);
      }
    }
  }
}

// Experts of every quantized type: rows of 256 inside a three-dimensional tensor.
TEST(Decoder, AgreesOnExpertsInEveryBlockFormat) {
  for (const DType type : kernels::block_dtypes()) {
    const auto m =
        synthetic_model(type,
                        "arch=qwen3moe,dim=256,layers=1,heads=4,kv_heads=2,vocab=320,experts=4,experts_"
                        "used=2,expert_ffn=256");
    const auto tokens = random_tokens(9, 320);
    auto executor = cpu_executor(m);
    const auto rows = run_step(*executor, {{tokens, 0, {0}, true}}, 320);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_LT(relative_error(rows[0], naive_forward(*m.file, tokens)), 2e-2) << kernels::to_string(type);
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
      const auto m = synthetic_model(spec);
      const auto tokens = random_tokens(18, spec.vocab, 5);
      auto executor = cpu_executor(m);
      const auto rows = run_step(*executor, {{tokens, 0, {0, 1}, true}}, spec.vocab);
      ASSERT_EQ(rows.size(), 1U);
      EXPECT_LT(relative_error(rows[0], naive_forward(*m.file, tokens)), 1e-3);
    }
  }
}

// LongRoPE has factors of its own for contexts beyond the original one, and the window counts.
TEST(Decoder, ServesLongContextsByTheirFactors) {
  auto m = synthetic_model(DType::f32, kPhi3);
  const auto tokens = random_tokens(21, m.vocab());
  const auto logits = [&] {
    auto executor = cpu_executor(m);
    const auto rows = run_step(*executor, {{tokens, 0, {5, 3}, true}}, m.vocab());
    EXPECT_LT(relative_error(rows.at(0), naive_forward(*m.file, tokens)), 1e-3);
    return rows.at(0);
  };
  const auto shorter = logits();
  m.file->serve(m.file->config().ropes[0].original_context);
  EXPECT_EQ(logits(), shorter);
  m.file->serve(m.file->config().ropes[0].original_context + 1);
  EXPECT_GT(relative_error(logits(), shorter), 1e-3);
}

// What lies before the window does not count, and a position more would.
TEST(Decoder, AWindowHidesWhatLiesBeforeIt) {
  for (std::string shape : {std::string(kPhi3), std::string(kGemma2), std::string(kGemma3)}) {
    shape += ",layers=1";
    const auto m = synthetic_model(DType::f32, shape);
    auto tokens = random_tokens(21, m.vocab());
    auto executor = cpu_executor(m);
    const auto last = [&] { return run_step(*executor, {{tokens, 0, {5, 3}, true}}, m.vocab()).at(0); };
    const auto before = last();
    tokens[21 - 10] = (tokens[21 - 10] + 1) % 300;  // the last row sees 9
    EXPECT_EQ(last(), before) << shape;
    tokens[21 - 9] = (tokens[21 - 9] + 1) % 300;
    EXPECT_NE(last(), before) << shape;
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
    const auto m = synthetic_model(type, shape);
    const std::uint32_t vocab = m.file->config().vocab_size;
    for (const Isa isa : isas()) {
      SCOPED_TRACE(std::string(shape) + " " + std::string(kernels::to_string(type)) + " " +
                   kernels::cpu::to_string(isa));
      const auto a = random_tokens(5, vocab, 1), b = random_tokens(19, vocab, 2),
                 c = random_tokens(1, vocab, 3);
      auto executor = cpu_executor(m, DType::f16, isa);
      const auto together =
          run_step(*executor, {{a, 0, {7}, true}, {b, 0, {2, 9}, true}, {c, 0, {4}, true}}, vocab);
      const auto decode =
          run_step(*executor, {{{11}, 5, {7}, true}, {{12}, 19, {2, 9}, true}, {{13}, 1, {4}, true}}, vocab);
      auto other = cpu_executor(m, DType::f16, isa, 1);
      EXPECT_EQ(run_step(*other, {{a, 0, {0}, true}}, vocab)[0], together[0]);
      EXPECT_EQ(run_step(*other, {{{11}, 5, {0}, true}}, vocab)[0], decode[0]);
      EXPECT_EQ(run_step(*other, {{b, 0, {1, 2}, true}}, vocab)[0], together[1]);
      EXPECT_EQ(run_step(*other, {{{12}, 19, {1, 2}, true}}, vocab)[0], decode[1]);
      EXPECT_EQ(run_step(*other, {{c, 0, {3}, true}}, vocab)[0], together[2]);
      EXPECT_EQ(run_step(*other, {{{13}, 1, {3}, true}}, vocab)[0], decode[2]);
    }
  }
}

TEST(Decoder, WholeEqualsChunkedEqualsTokenByToken) {
  for (const auto& [type, shape] : variants()) {
    const auto m = synthetic_model(type, shape);
    const std::uint32_t vocab = m.file->config().vocab_size;
    const auto tokens = random_tokens(37, vocab, 9);
    const std::vector<std::uint32_t> blocks = {8, 1, 6};
    auto executor = cpu_executor(m);
    const auto whole = run_step(*executor, {{tokens, 0, blocks, true}}, vocab)[0];
    for (const std::size_t chunk : {1UL, 3UL, 16UL, 30UL}) {
      auto other = cpu_executor(m);
      const auto last = run_chunks(*other, tokens, blocks, vocab, chunk);
      EXPECT_EQ(last, whole) << shape << " " << kernels::to_string(type) << " in chunks of " << chunk;
    }
  }
}

// Prompts are scored by the rows of many tokens of a step: each is what it would be as the last row of one.
TEST(Decoder, RowsOfASequenceAreThoseOfItsBeginnings) {
  for (const auto& [type, shape] : variants()) {
    const auto m = synthetic_model(type, shape);
    auto executor = cpu_executor(m);
    expect_rows_of_beginnings(*executor, m.file->config().vocab_size);
  }
}

}  // namespace
}  // namespace flyball::test
