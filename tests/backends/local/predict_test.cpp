// The memory that predict_memory names for every family, type and engine, against the memory that the engine then holds.
#include "backends/local/predict.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "backends/local/local_executor.hpp"
#include "backends/model/synthetic.hpp"
#include "tests/backends/model/model_shapes.hpp"
#include "tests/backends/model/run_model.hpp"
#include "tests/harness/kernel_caches.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::test {
namespace {

struct Case {
  std::string name, shape;
  kernels::DType type = kernels::DType::q8_0;
  bool tied = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " (" << c.shape << ")";
}

// Every family and every type of element; "tiny" and "small" as make-model has them.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string_view shape : kFamilies) all.push_back({family_name(shape), std::string(shape)});
  for (const char* shape : {"tiny", "small"}) all.push_back({shape, shape});
  all.push_back({"tied", std::string(kLlama), kernels::DType::q8_0, true});
  for (const kernels::DType type : kernels::kAllDTypes)
    if (type != kernels::DType::q8_0)
      all.push_back({std::string(kernels::to_string(type)), std::string(shape_for(type)), type});
  return all;
}

constexpr auto kPatience = std::chrono::minutes(10);  // drivers compile at the first launch

class Predict : public testing::TestWithParam<std::tuple<std::string, Case>> {};

TEST_P(Predict, WhatTheEngineThenHolds) {
  const std::string& backend = std::get<0>(GetParam());
  const Case& c = std::get<1>(GetParam());
  own_pocl_cache();
  const TempDir dir;
  auto spec = model::parse_synthetic_shape(c.shape);
  ASSERT_TRUE(spec) << spec.error().message;
  spec->type = c.type;
  spec->tied = c.tied;
  const auto path = dir.path() / "model.gguf";
  ASSERT_TRUE(model::write_synthetic_file(*spec, path, 1));
  // Software devices take seconds to open: what does not depend on the engine is asked of the processor's.
  const bool gpu = backend != "cpu";
  for (const char* kv : {"f16", "q8_0"})
    for (const std::uint32_t sequences : {1U, 5U}) {
      if (gpu && (kv == std::string_view("q8_0") || sequences == 1)) continue;
      SCOPED_TRACE(std::string("kv ") + kv + ", sequences " + std::to_string(sequences));
      local::LocalBackendOptions options;
      options.backend = backend;
      options.path = path;
      options.threads = 1;
      options.cache_dir = kernel_caches();
      options.context = std::min(256U, spec->context);
      options.max_sequences = sequences;
      options.kv_type = kv;
      options.opencl[0].allow_processor = options.vulkan.allow_processor = true;
      options.opencl[0].fence_deadline = options.vulkan.fence_deadline = kPatience;
      auto model = local::open_local_model(options);
      ASSERT_TRUE(model) << model.error().message;
      const auto said = local::predict_memory(**model, options);
      if (!said && said.error().code == ErrorCode::unsupported_value) continue;  // q8_0 for such heads
      ASSERT_TRUE(said) << said.error().message;
      auto opened = local::open_local_executor(options, *model);
      if (!opened && opened.error().code == ErrorCode::model_unavailable) GTEST_SKIP() << opened.error().message;
      ASSERT_TRUE(opened) << opened.error().message;
      const graph::MemoryPlan held = opened->executor->memory();
      EXPECT_EQ(said->kv_bytes, held.kv_bytes);
      EXPECT_EQ(said->least_kv_bytes * sequences, held.kv_bytes);
      const auto near = [](std::uint64_t predicted, std::uint64_t then) {
        const double off = std::abs(static_cast<double>(predicted) / static_cast<double>(then) - 1);
        EXPECT_LE(off, 0.05) << predicted << " said, " << then << " held";
      };
      near(said->weight_bytes, held.weight_bytes);
      near(said->scratch_bytes, held.scratch_bytes);
      near(said->most_bytes(), held.total());
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, Predict,
                         testing::Combine(testing::Values("cpu", "opencl", "vulkan"), testing::ValuesIn(cases())),
                         [](const auto& i) {
                           return std::get<0>(i.param) + "_" + std::get<1>(i.param).name;
                         });

TEST(PredictOptions, AreCheckedBeforeAnythingIsOpened) {
  auto m = synthetic_model(kernels::DType::q8_0, kLlama);
  local::LocalBackendOptions options;
  options.backend = "abacus";
  EXPECT_EQ(local::predict_memory(*m.file, options).error().code, ErrorCode::unsupported_value);
  options.backend = "cpu";
  options.kv_type = "q3";
  EXPECT_EQ(local::predict_memory(*m.file, options).error().param, "kv_type");
  options.kv_type = "f16";
  options.context = 1U << 20;
  EXPECT_EQ(local::predict_memory(*m.file, options).error().param, "context");
}

// A mixture's experts on the CPU are as many as they are given room for.
TEST(PredictOptions, ExpertsTakeWhatTheyMay) {
  auto m = synthetic_model(kernels::DType::q8_0, kMixture);
  local::LocalBackendOptions options;
  options.expert_bytes = 1ULL << 40;
  const auto all = local::predict_memory(*m.file, options)->weight_bytes;
  options.expert_bytes = 1;
  const auto least = local::predict_memory(*m.file, options)->weight_bytes;
  EXPECT_LT(least, all);
  EXPECT_GT(least, 0U);
  // Unless somebody says otherwise, as many as what engines may hold together has room for: that others hold
  // it now does not matter, they end. Where there is hardly any it is the least, and never all of them.
  options.expert_bytes = 0;
  options.memory_capacity = 1;
  EXPECT_EQ(local::predict_memory(*m.file, options)->weight_bytes, least);
  options.memory_capacity = 1ULL << 40;
  EXPECT_EQ(local::predict_memory(*m.file, options)->weight_bytes, all);
  options.memory_capacity = least + (all - least) / 2;
  const auto some = local::predict_memory(*m.file, options)->weight_bytes;
  EXPECT_GE(some, least);
  EXPECT_LE(some, options.memory_capacity);
}

}  // namespace
}  // namespace flyball::test
