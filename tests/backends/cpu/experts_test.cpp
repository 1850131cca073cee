// Routed experts on the CPU: packed when needed, counted while they load, grouped by who was chosen.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "config/units.hpp"
#include "tests/backends/cpu/cpu_ops_runs.hpp"
#include "tests/backends/model/model_shapes.hpp"

namespace flyball::test {
namespace {

using kernels::DType;

// Room for the experts of one layer: the other layer's give way at every step, and the result is the same.
// From a mapped file, whose pages are given back after each packing.
TEST(Experts, ThatDoNotFitArePackedWhenNeeded) {
  const auto path =
      std::filesystem::temp_directory_path() / ("flyball_experts_" + std::to_string(::getpid()) + ".gguf");
  auto spec = model::parse_synthetic_shape(kMixture).value();
  spec.experts = 16;
  spec.expert_ffn = 256;  // matrices of more than a page
  ASSERT_TRUE(model::write_synthetic_file(spec, path, 1));
  RunModel m;
  m.file = model::ModelFile::open(path).value();
  std::filesystem::remove(path);  // the mapping keeps it
  const model::ModelConfig& config = m.file->config();
  device::ThreadPool pool(2);
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
  EXPECT_NE(too_few.error().message.find(config::exact_size_text(layer_bytes) + " are needed"),
            std::string::npos);
}

TEST(Experts, AreSeenToLoad) {
  const auto m = synthetic_model(DType::q4_0, kMixture);
  device::ThreadPool pool(1);
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  std::uint64_t last = 0, total = 0, dense = 0, calls = 0;
  const auto weights =
      cpu::CpuWeights::load(*m.file, kernels, pool, 0, [&](std::uint64_t done, std::uint64_t all) {
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
  const auto m = synthetic_model(DType::q4_0, kMixture);
  const model::ModelConfig& config = m.file->config();
  device::ThreadPool pool(1);
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

}  // namespace
}  // namespace flyball::test
