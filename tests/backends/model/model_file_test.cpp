// Weights by role, and files that cannot be opened or do not hold what their metadata promise.
#include "backends/model/model_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "backends/model/synthetic.hpp"
#include "tests/backends/model/raw_gguf.hpp"

namespace flyball::model {
namespace {

using test::SmallModel;
using ::testing::HasSubstr;

void expect_invalid(const SmallModel& model, const char* message) {
  const auto bytes = model.bytes();
  const auto file = ModelFile::from_bytes(bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::model_invalid);
  EXPECT_THAT(file.error().message, HasSubstr(message));
}

class ScratchDir {
 public:
  ScratchDir() {
    std::string name = std::filesystem::temp_directory_path() / "flyball-model-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchDir() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

TEST(ModelFile, WeightsByRole) {
  const auto bytes = SmallModel{}.bytes();
  const auto file = ModelFile::from_bytes(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const auto& weights = (*file)->weights();
  ASSERT_EQ(weights.n_layers(), 1U);
  EXPECT_EQ(weights.of(WeightRole::k, 0).rows, 2U);
  EXPECT_EQ(weights.of(WeightRole::k, 0).cols, 4U);
  EXPECT_EQ(weights.of(WeightRole::down, 0).rows, 4U);
  EXPECT_EQ(weights.of(WeightRole::down, 0).cols, 6U);
  EXPECT_EQ(weights.of(WeightRole::output).data,
            reinterpret_cast<const std::byte*>((*file)->gguf().tensor("output.weight")->data.data()));
  EXPECT_EQ((*file)->parameter_count(), 20U + 4 + 16 + 8 + 8 + 16 + 4 + 24 * 3 + 4 + 20);
  EXPECT_EQ((*file)->weight_bytes(), (*file)->parameter_count() * 4);
  EXPECT_EQ((*file)->main_quantization(), "F32");
}

// Rows of q, then of k, then of v; of gate, then of up.
TEST(ModelFile, FusedMatricesAreReadInParts) {
  SmallModel model;
  model.architecture = "phi3";
  model.heads = 2;
  const auto bytes = model.bytes();
  const auto file = ModelFile::from_bytes(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const ModelWeights& weights = (*file)->weights();
  const std::byte* qkv = (*file)->gguf().tensor("blk.0.attn_qkv.weight")->data.data();
  const std::byte* gate_up = (*file)->gguf().tensor("blk.0.ffn_up.weight")->data.data();
  const auto expect = [](const Weight& w, const std::byte* begin, std::uint32_t first, std::uint32_t rows) {
    EXPECT_EQ(w.data, begin + std::size_t{first} * 4 * sizeof(float));
    EXPECT_EQ(w.rows, rows);
    EXPECT_EQ(w.cols, 4U);
  };
  expect(weights.of(WeightRole::q), qkv, 0, 4);
  expect(weights.of(WeightRole::k), qkv, 4, 2);
  expect(weights.of(WeightRole::v), qkv, 6, 2);
  expect(weights.of(WeightRole::gate), gate_up, 0, 6);
  expect(weights.of(WeightRole::up), gate_up, 6, 6);
  for (const char* name : {"blk.0.attn_qkv.weight", "blk.0.ffn_up.weight"}) {
    SmallModel broken = model;
    broken.skip = name;
    expect_invalid(broken, (std::string(name) + " is missing").c_str());
    broken.skip.clear();
    broken.wrong_shape = name;
    expect_invalid(broken, name);
  }
  model.extra = "blk.0.ffn_gate.weight";
  expect_invalid(model, "blk.0.ffn_gate.weight is none that a phi3 model of this shape has");
}

TEST(ModelFile, TiedEmbeddingsServeAsOutput) {
  SmallModel model;
  model.output = false;
  const auto bytes = model.bytes();
  const auto file = ModelFile::from_bytes(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->weights().of(WeightRole::output).data,
            (*file)->weights().of(WeightRole::token_embedding).data);
}

TEST(ModelFile, EachMissingTensorIsNamed) {
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
        "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
        "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"}) {
    SmallModel model;
    model.skip = name;
    expect_invalid(model, (std::string("the tensor ") + name + " is missing").c_str());
    SmallModel wrong;
    wrong.wrong_shape = name;
    if (std::string_view(name) != "token_embd.weight") expect_invalid(wrong, name);
  }
}

TEST(ModelFile, WrongShapesAndTypesAreSaid) {
  SmallModel model;
  model.wrong_shape = "blk.0.ffn_up.weight";
  expect_invalid(model, "has the shape [7, 4] where the metadata asks for [6, 4]");
  model = {};
  model.norm_type = kernels::DType::f16;
  expect_invalid(model, "blk.0.attn_norm.weight is F16");
}

// A bias would change what the model computes: not passed over in silence.
TEST(ModelFile, UnknownTensorsAreRefused) {
  SmallModel model;
  model.extra = "blk.0.ffn_up.bias";
  expect_invalid(model, "blk.0.ffn_up.bias is none that a llama model of this shape has");
  model.extra = "blk.0.attn_q.bias";
  expect_invalid(model, "the tensor blk.0.attn_k.bias is missing");
  model.architecture = "qwen3";
  expect_invalid(model, "blk.0.attn_q.bias is none that a qwen3 model of this shape has");
  model.extra = "blk.1.attn_norm.weight";
  expect_invalid(model, "blk.1.attn_norm.weight");
}

TEST(ModelFile, WeightsOfOtherFamilies) {
  SmallModel model;
  model.architecture = "qwen2";
  const auto qwen2_bytes = model.bytes();
  const auto qwen2 = ModelFile::from_bytes(qwen2_bytes);
  ASSERT_TRUE(qwen2) << qwen2.error().message;
  EXPECT_EQ((*qwen2)->weights().of(WeightRole::q_bias, 0).cols, 4U);
  EXPECT_EQ((*qwen2)->weights().of(WeightRole::v_bias, 0).cols, 2U);
  EXPECT_EQ((*qwen2)->weights().of(WeightRole::q_norm, 0).data, nullptr);
  model.architecture = "qwen3";
  const auto qwen3_bytes = model.bytes();
  const auto qwen3 = ModelFile::from_bytes(qwen3_bytes);
  ASSERT_TRUE(qwen3) << qwen3.error().message;
  EXPECT_EQ((*qwen3)->weights().of(WeightRole::k_norm, 0).cols, 2U);
  EXPECT_EQ((*qwen3)->weights().of(WeightRole::q_bias, 0).data, nullptr);
}

TEST(ModelFile, ExpertsAndWhatATokenUsesOfThem) {
  SmallModel model;
  model.architecture = "qwen3moe";
  model.experts = 5;
  model.experts_used = 2;
  const auto bytes = model.bytes();
  const auto file = ModelFile::from_bytes(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const ModelWeights& weights = (*file)->weights();
  EXPECT_EQ(weights.of(WeightRole::expert_up).experts, 5U);
  EXPECT_EQ(weights.of(WeightRole::expert_up).rows, 6U);
  EXPECT_EQ(weights.of(WeightRole::expert_up).cols, 4U);
  EXPECT_EQ(weights.of(WeightRole::expert_up).matrix_bytes(), 96U);
  EXPECT_EQ(weights.of(WeightRole::expert_down).rows, 4U);
  EXPECT_EQ(weights.of(WeightRole::router).rows, 5U);
  EXPECT_EQ(weights.of(WeightRole::gate).data, nullptr);
  const auto dense = 20U + 4 + 16 + 8 + 8 + 16 + 2 + 2 + 4 + 4 + 20;
  EXPECT_EQ((*file)->parameter_count(), dense + 20 + 5 * 72);
  EXPECT_EQ((*file)->active_parameter_count(), dense + 20 + 2 * 72);
  EXPECT_EQ((*file)->token_weight_bytes(), 4 * (dense + 20 + 2 * 72 - 20));  // of the embedding table a row
  const auto llama_bytes = SmallModel{}.bytes();
  const auto llama = ModelFile::from_bytes(llama_bytes);
  EXPECT_EQ((*llama)->active_parameter_count(), (*llama)->parameter_count());
}

TEST(ModelFile, WhatTheFamiliesNeedIsNamed) {
  const auto missing = [](const char* architecture, std::uint32_t experts, const char* name) {
    SmallModel model;
    model.architecture = architecture;
    model.experts = experts;
    model.skip = name;
    expect_invalid(model, (std::string("the tensor ") + name + " is missing").c_str());
    SmallModel wrong = model;
    wrong.skip.clear();
    wrong.wrong_shape = name;
    expect_invalid(wrong, name);
  };
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"})
    missing("qwen2", 0, name);
  for (const char* name : {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}) missing("qwen3", 0, name);
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_exps.weight",
                           "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"}) {
    missing("llama", 3, name);
    missing("qwen3moe", 3, name);
  }
  SmallModel model;
  model.architecture = "qwen2";
  model.bias_type = kernels::DType::f16;
  expect_invalid(model, "blk.0.attn_q.bias is F16; a norm or a bias must be F32");
  model = {};
  model.experts = 3;
  model.wrong_experts = "blk.0.ffn_up_exps.weight";
  expect_invalid(model, "has the shape [4, 6, 4] where the metadata asks for [3, 6, 4]");
  model = {};
  model.architecture = "qwen3";
  model.extra = "blk.0.attn_q.bias";
  expect_invalid(model, "blk.0.attn_q.bias is none that a qwen3 model of this shape has");
}

// The first Mixtral files: one tensor an expert.
TEST(ModelFile, SeparateExpertsAreRefusedAsSuch) {
  SmallModel model;
  model.experts = 3;
  model.skip = "blk.0.ffn_gate_exps.weight";
  model.extra = "blk.0.ffn_gate.0.weight";
  expect_invalid(model, "each expert in a tensor of its own (blk.0.ffn_gate.0.weight)");
}

TEST(ModelFile, OpensFromDisk) {
  const ScratchDir dir;
  SyntheticSpec spec;
  const auto path = dir / "model.gguf";
  const auto size = write_synthetic_file(spec, path, 1);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(*size, std::filesystem::file_size(path));
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->main_quantization(), "Q4_0");
  EXPECT_EQ((*file)->config().n_layers, 2U);
}

TEST(ModelFile, FilesThatCannotBeRead) {
  const ScratchDir dir;
  const auto expect_io = [](const std::filesystem::path& path, const char* message) {
    const auto file = ModelFile::open(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::io_error);
    EXPECT_EQ(file.error().where, path.string());
    EXPECT_THAT(file.error().message, HasSubstr(message));
  };
  expect_io(dir / "none.gguf", "No such file");
  expect_io(dir / "", "this directory is no model: there is no config.json");
  std::ofstream(dir / "empty.gguf").flush();
  expect_io(dir / "empty.gguf", "the file is empty");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  expect_io(dir / "pipe", "not a regular file");  // and does not wait for a writer
  std::ofstream(dir / "text.gguf") << "hello";
  const auto file = ModelFile::open(dir / "text.gguf");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::model_invalid);
}

TEST(MappedFile, AMachineInTroubleIsNotTheFilesFault) {
  const ScratchDir dir;
  std::ofstream(dir / "a") << "aaaa";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto file = MappedFile::open(dir / "a");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::model_unavailable);
  EXPECT_THAT(file.error().message, HasSubstr("Too many open files"));
}

TEST(MappedFile, MovesAndUnmapsOnce) {
  const ScratchDir dir;
  std::ofstream(dir / "a") << "aaaa";
  std::ofstream(dir / "b") << "bb";
  auto a = MappedFile::open(dir / "a");
  auto b = MappedFile::open(dir / "b");
  ASSERT_TRUE(a && b);
  MappedFile c = std::move(*a);
  EXPECT_TRUE(a->bytes().empty());
  EXPECT_EQ(c.bytes().size(), 4U);
  c = std::move(*b);
  EXPECT_EQ(c.bytes().size(), 2U);
}

}  // namespace
}  // namespace flyball::model
