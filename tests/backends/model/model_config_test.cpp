// Metadata to shape: what is read, what is refused, and that every refusal names its key.
#include "backends/model/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/backends/model/raw_gguf.hpp"

namespace flyball::model {
namespace {

using test::SmallModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Edit>
Result<ModelConfig> config_of(const SmallModel& model, Edit&& edit) {
  const auto bytes = model.bytes(edit);
  const auto file = Gguf::parse(bytes);
  EXPECT_TRUE(file) << file.error().message;
  return read_model_config(*file);
}
Result<ModelConfig> config_of(const SmallModel& model) {
  return config_of(model, [](GgufWriter&) {});
}
void expect_invalid(const Result<ModelConfig>& config, const char* message) {
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::model_invalid);
  EXPECT_THAT(config.error().message, HasSubstr(message));
}

void expect_unsupported(const Result<ModelConfig>& config, const char* message, const char* where) {
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::model_unsupported);
  EXPECT_THAT(config.error().message, HasSubstr(message));
  EXPECT_EQ(config.error().where, where);
}

// Names go into logs and terminals: no control characters, no megabytes.
TEST(ModelConfig, NamesArePrintable) {
  const auto named = [](const std::string& name) {
    return config_of({}, [&](GgufWriter& out) { out.set_string("general.name", name); })->name;
  };
  EXPECT_EQ(named("TinyLlama 1.1B"), "TinyLlama 1.1B");
  EXPECT_EQ(named("a\nERROR \x1b[2J\xff"), "a?ERROR ?[2J?");
  EXPECT_LT(named(std::string(100'000, 'x')).size(), 100U);
}

TEST(ModelConfig, DefaultsOfAFileThatSaysLittle) {
  const auto config = config_of({});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->head_dim, 2U);
  EXPECT_EQ(config->ropes[0].dim, 2U);
  EXPECT_EQ(config->ropes[0].base, 10'000.0F);
  EXPECT_EQ(config->ropes[0].scaling, RopeScaling::none);
  EXPECT_EQ(config->ropes[0].original_context, 16U);
  EXPECT_EQ(config->norm_eps, 1e-5F);
  EXPECT_EQ(config->vocab_size, 5U);
  EXPECT_FALSE(config->tied_embeddings);
  SmallModel tied;
  tied.output = false;
  EXPECT_TRUE(config_of(tied)->tied_embeddings);
}

TEST(ModelConfig, MissingNormEpsilonIsRefused) {
  SmallModel model;
  model.epsilon = false;
  expect_invalid(config_of(model), "the metadata key llama.attention.layer_norm_rms_epsilon is missing");
}

TEST(ModelConfig, RopeScaling) {
  const auto scaled = [](const char* type, float factor) {
    return config_of({}, [&](GgufWriter& out) {
      out.set_string("llama.rope.scaling.type", type);
      out.set_f32("llama.rope.scaling.factor", factor);
      out.set_u32("llama.rope.scaling.original_context_length", 4);
      out.set_f32("llama.rope.scaling.attn_factor", 1.25F);
    });
  };
  EXPECT_EQ(scaled("linear", 4)->ropes[0].scaling, RopeScaling::linear);
  EXPECT_EQ(scaled("linear", 4)->ropes[0].factor, 4.0F);
  EXPECT_EQ(scaled("linear", 4)->ropes[0].attn_factor, 1.25F);
  const auto yarn = scaled("yarn", 4);
  EXPECT_EQ(yarn->ropes[0].scaling, RopeScaling::yarn);
  EXPECT_EQ(yarn->ropes[0].original_context, 4U);
  EXPECT_EQ(yarn->ropes[0].attn_factor, 1.25F);
  EXPECT_EQ(scaled("none", 4)->ropes[0].scaling, RopeScaling::none);
  EXPECT_EQ(scaled("none", 4)->ropes[0].factor, 1.0F);
  expect_invalid(scaled("longrope", 4), "LongRoPE needs both");
  expect_invalid(scaled("dynamic", 4), "dynamic is not one");
  EXPECT_EQ(scaled("linear", 0)->ropes[0].scaling, RopeScaling::none) << "0 is off";
  EXPECT_EQ(scaled("yarn", 0)->ropes[0].factor, 1.0F);
  expect_invalid(scaled("yarn", -1.0F), "rope.scaling.factor");
  expect_invalid(scaled("yarn", std::numeric_limits<float>::quiet_NaN()), "rope.scaling.factor");
  const auto old = config_of({}, [](GgufWriter& out) { out.set_f32("llama.rope.scale_linear", 2); });
  EXPECT_EQ(old->ropes[0].scaling, RopeScaling::linear);
  EXPECT_EQ(old->ropes[0].factor, 2.0F);
  const auto both = config_of({}, [](GgufWriter& out) {
    out.set_f32("llama.rope.scale_linear", 2);
    out.set_f32("llama.rope.scaling.factor", 4);
  });
  EXPECT_EQ(both->ropes[0].factor, 4.0F);
}

TEST(ModelConfig, FrequencyFactorsOfLlama3) {
  SmallModel model;
  const auto with = [](std::vector<float> factors) {
    GgufWriter out;
    out.set_string("general.architecture", "llama");
    for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length"}) {
      out.set_u32(std::string("llama.") + key, 8);
    }
    out.set_u32("llama.attention.head_count", 2);
    out.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    const std::uint64_t dims[] = {factors.size(), 1};
    const std::uint64_t embedding[] = {8, 3};
    out.add_tensor("rope_freqs.weight", kernels::DType::f32, std::span(dims).first(1));
    out.add_tensor("token_embd.weight", kernels::DType::f32, embedding);
    const auto header = out.header();
    std::vector<std::byte> bytes(header.size() + out.data_bytes());
    std::memcpy(bytes.data(), header.data(), header.size());
    std::memcpy(bytes.data() + header.size(), factors.data(), factors.size() * sizeof(float));
    return read_model_config(*Gguf::parse(bytes));
  };
  const auto config = with({1, 8});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ropes[0].scaling, RopeScaling::llama3);
  EXPECT_THAT(config->ropes[0].frequency_factors, ElementsAre(1, 8));
  expect_invalid(with({1, 8, 8}), "must be F32 of 2 values");
  expect_invalid(with({1, 0}), "not positive");
  expect_invalid(with({std::numeric_limits<float>::infinity(), 1}), "not positive");
}

TEST(ModelConfig, FactorsOfLongRope) {
  const auto with = [](std::vector<const char*> tensors, std::uint64_t n = 2) {
    GgufWriter out;
    out.set_string("general.architecture", "phi3");
    for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length"})
      out.set_u32(std::string("phi3.") + key, 8);
    out.set_u32("phi3.attention.head_count", 2);
    out.set_f32("phi3.attention.layer_norm_rms_epsilon", 1e-5F);
    out.set_u32("phi3.rope.scaling.original_context_length", 4);
    out.set_f32("phi3.rope.scaling.attn_factor", 1.25F);
    const std::uint64_t dims[] = {n}, embedding[] = {8, 3};
    for (const char* name : tensors) out.add_tensor(name, kernels::DType::f32, dims);
    out.add_tensor("token_embd.weight", kernels::DType::f32, embedding);
    const auto header = out.header();
    std::vector<std::byte> bytes(header.size() + out.data_bytes());
    std::memcpy(bytes.data(), header.data(), header.size());
    std::vector<float> values((bytes.size() - header.size()) / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(1 + i);
    std::memcpy(bytes.data() + header.size(), values.data(), values.size() * sizeof(float));
    return read_model_config(*Gguf::parse(bytes));
  };
  constexpr const char* kLong = "rope_factors_long.weight";
  constexpr const char* kShort = "rope_factors_short.weight";
  auto config = with({kShort, kLong});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ropes[0].scaling, RopeScaling::longrope);
  EXPECT_EQ(config->ropes[0].attn_factor, 1.25F);
  EXPECT_THAT(config->ropes[0].frequency_factors, ElementsAre(1, 2));
  config->serve(4);
  EXPECT_THAT(config->ropes[0].frequency_factors, ElementsAre(1, 2));
  config->serve(5);
  EXPECT_EQ(config->ropes[0].frequency_factors, config->ropes[0].long_factors);
  EXPECT_NE(config->ropes[0].long_factors[0], 1.0F);
  expect_invalid(with({kLong}), "LongRoPE needs both");
  expect_invalid(with({kShort}), "LongRoPE needs both");
  expect_invalid(with({kShort, kLong, "rope_freqs.weight"}), "beside another RoPE scaling");
  expect_invalid(with({kShort, kLong}, 3), "must be F32 of 2 values");
}

TEST(ModelConfig, HeadsThatDoNotFit) {
  SmallModel model;
  model.heads = 0;
  expect_invalid(config_of(model), "llama.attention.head_count is 0");
  model = {};
  model.kv_heads = 0;
  expect_invalid(config_of(model), "llama.attention.head_count_kv is 0");
  model = {};
  model.heads = 3;
  model.kv_heads = 2;
  expect_invalid(config_of(model), "3 heads cannot share 2");
  model.kv_heads = 1;
  expect_invalid(config_of(model), "not a multiple of the 3 heads");
  model = {};
  model.heads = 4;  // heads of one value
  expect_invalid(config_of(model), "must be even");
  const auto key_length = [](std::uint32_t keys, std::uint32_t values) {
    return config_of({}, [=](GgufWriter& out) {
      out.set_u32("llama.attention.key_length", keys);
      out.set_u32("llama.attention.value_length", values);
    });
  };
  EXPECT_EQ(key_length(8, 8)->head_dim, 8U);
  expect_invalid(key_length(8, 4), "even and equal");
  expect_invalid(key_length(7, 7), "even and equal");
  expect_invalid(key_length(1'000'000, 8), "key_length is 1000000");
}

TEST(ModelConfig, HeadCountsPerLayer) {
  const auto kv_heads = [](std::vector<std::int32_t> counts) {
    Gguf file;
    GgufWriter out;
    out.set_string("general.architecture", "llama");
    for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length"}) {
      out.set_u32(std::string("llama.") + key, 8);
    }
    out.set_u32("llama.attention.head_count", 4);
    out.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    out.set_i32s("llama.attention.head_count_kv", counts);
    const std::uint64_t embedding[] = {8, 3};
    out.add_tensor("token_embd.weight", kernels::DType::f32, embedding);
    auto header = out.header();
    header.resize(header.size() + out.data_bytes());
    return read_model_config(*Gguf::parse(std::as_bytes(std::span(header))));
  };
  EXPECT_EQ(kv_heads({2, 2, 2})->n_kv_heads, 2U);
  expect_invalid(kv_heads({2, 4, 2}), "differs between layers");
  expect_invalid(kv_heads({-2, -2}), "differs between layers");
  expect_invalid(kv_heads({}), "differs between layers");
  expect_invalid(kv_heads({5000, 5000}), "is 5000 in each layer; 1 to 1024 is allowed");
}

TEST(ModelConfig, ShapesOutOfRange) {
  const auto with = [](std::uint32_t SmallModel::*field, std::uint32_t value) {
    // Only the metadata is looked at before the refusal; the tensors stay small.
    GgufWriter out;
    SmallModel model;
    model.*field = value;
    out.set_string("general.architecture", "llama");
    out.set_u32("llama.block_count", model.layers);
    out.set_u32("llama.context_length", model.context);
    out.set_u32("llama.embedding_length", model.dim);
    out.set_u32("llama.feed_forward_length", model.ffn);
    out.set_u32("llama.attention.head_count", model.heads);
    out.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    const auto header = out.header();
    return read_model_config(*Gguf::parse(std::as_bytes(std::span(header))));
  };
  for (const std::uint32_t wrong : {0U, ~0U}) {
    expect_invalid(with(&SmallModel::layers, wrong), "llama.block_count is");
    expect_invalid(with(&SmallModel::context, wrong), "llama.context_length is");
    expect_invalid(with(&SmallModel::dim, wrong), "llama.embedding_length is");
    expect_invalid(with(&SmallModel::ffn, wrong), "llama.feed_forward_length is");
    expect_invalid(with(&SmallModel::heads, wrong), "llama.attention.head_count is");
  }
  expect_invalid(with(&SmallModel::layers, 1), "token_embd.weight is missing");
}

TEST(ModelConfig, WhatThisBuildDoesNotRun) {
  SmallModel other;
  other.architecture = "gemma\x01";
  expect_unsupported(config_of(other), "the architecture gemma? is not one", "general.architecture");
  // A vision projector's file; Gemma 3n; Phi-3's mixture.
  for (const char* name : {"clip", "gemma3n", "phimoe"}) {
    other.architecture = name;
    expect_unsupported(config_of(other), name, "general.architecture");
  }
  EXPECT_TRUE(config_of({}, [](GgufWriter& out) { out.set_u32("llama.expert_count", 0); }));
  expect_invalid(config_of({}, [](GgufWriter& out) { out.set_string("llama.expert_count", "8"); }),
                 "expert_count");
  expect_invalid(config_of({}, [](GgufWriter& out) { out.set_u32("llama.rope.dimension_count", 1); }),
                 "even");
  expect_invalid(config_of({}, [](GgufWriter& out) { out.set_u32("llama.rope.dimension_count", 4); }),
                 "1 to 2");
  expect_invalid(config_of({}, [](GgufWriter& out) { out.set_u32("general.name", 4); }), "general.name");
}

TEST(ModelConfig, Families) {
  SmallModel model;
  EXPECT_EQ(config_of(model)->rope_style, kernels::RopeStyle::interleaved);
  EXPECT_FALSE(config_of(model)->qkv_bias || config_of(model)->qk_norm);
  model.architecture = "qwen2";
  const auto qwen2 = config_of(model);
  ASSERT_TRUE(qwen2) << qwen2.error().message;
  EXPECT_EQ(qwen2->rope_style, kernels::RopeStyle::half);
  EXPECT_TRUE(qwen2->qkv_bias);
  EXPECT_FALSE(qwen2->qk_norm);
  EXPECT_EQ(qwen2->ffn_dim, 6U);
  model.architecture = "qwen3";
  const auto qwen3 = config_of(model, [](GgufWriter& out) {
    out.set_u32("qwen3.attention.key_length", 8);
    out.set_u32("qwen3.attention.value_length", 8);
  });
  ASSERT_TRUE(qwen3) << qwen3.error().message;
  EXPECT_EQ(qwen3->rope_style, kernels::RopeStyle::half);
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_FALSE(qwen3->qkv_bias);
  EXPECT_EQ(qwen3->head_dim, 8U);
  EXPECT_EQ(qwen3->ropes[0].dim, 8U);
  // Only the architecture's own keys count.
  const auto foreign =
      config_of(model, [](GgufWriter& out) { out.set_u32("llama.attention.key_length", 8); });
  EXPECT_EQ(foreign->head_dim, 2U);
}

TEST(ModelConfig, Windows) {
  SmallModel model;
  model.architecture = "phi3";
  model.layers = 3;
  const auto windowed = [&](std::uint32_t window) {
    return config_of(model, [=](GgufWriter& out) { out.set_u32("phi3.attention.sliding_window", window); });
  };
  const auto none = config_of(model);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->fused_matrices);
  EXPECT_EQ(none->rope_style, kernels::RopeStyle::half);
  EXPECT_FALSE(none->windowed());
  EXPECT_FALSE(windowed(0)->windowed());
  EXPECT_FALSE(windowed(16)->windowed()) << "as long as the context";
  const auto some = windowed(15);
  EXPECT_TRUE(some->windowed());
  for (const std::uint32_t layer : {0U, 1U, 2U}) EXPECT_EQ(some->layer(layer).window, 15U);
  expect_invalid(windowed(~0U), "phi3.attention.sliding_window is");
  // Another family's files may have the key, and it means nothing there.
  model.architecture = "llama";
  EXPECT_FALSE(config_of(model, [](GgufWriter& out) {
                 out.set_u32("llama.attention.sliding_window", 4);
               })->windowed());
}

std::vector<bool> local_layers(const ModelConfig& config) {
  std::vector<bool> local;
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    local.push_back(config.layer(i).window != 0 || config.layer(i).rope != 0);
  return local;
}

TEST(ModelConfig, Gemma2) {
  SmallModel model;
  model.architecture = "gemma2";
  model.layers = 5;
  model.context = 8192;
  const auto plain = config_of(model);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->embedding_scale, 2.0F);
  EXPECT_EQ(plain->activation, kernels::Activation::gelu);
  EXPECT_TRUE(plain->post_norms);
  EXPECT_EQ(plain->attention_cap, 50.0F);
  EXPECT_EQ(plain->logit_cap, 30.0F);
  EXPECT_FLOAT_EQ(plain->query_scale, 1.0F / std::sqrt(2.0F));
  EXPECT_THAT(local_layers(*plain), ElementsAre(true, false, true, false, true));
  EXPECT_EQ(plain->layer(0).window, 4096U);
  EXPECT_EQ(plain->layer(1).window, 0U);
  EXPECT_EQ(plain->ropes.size(), 1U);
  const auto own = config_of(model, [](GgufWriter& out) {
    out.set_f32("gemma2.attn_logit_softcapping", 20.0F);
    out.set_f32("gemma2.final_logit_softcapping", 10.0F);
    out.set_u32("gemma2.attention.sliding_window", 100);
    out.set_u32("gemma2.attention.sliding_window_pattern", 3);
    out.set_f32("gemma2.rope.freq_base_swa", 500.0F);
  });
  EXPECT_EQ(own->attention_cap, 20.0F);
  EXPECT_EQ(own->logit_cap, 10.0F);
  EXPECT_THAT(local_layers(*own), ElementsAre(true, true, false, true, true));
  EXPECT_EQ(own->layer(4).window, 100U);
  EXPECT_EQ(own->ropes.at(1).base, 500.0F);
  const auto flags = config_of(model, [](GgufWriter& out) {
    out.set_i32s("gemma2.attention.sliding_window_pattern", std::vector<std::int32_t>{0, 1, 1, 0, 1});
  });
  EXPECT_THAT(local_layers(*flags), ElementsAre(false, true, true, false, true));
  // The largest one's heads are not what its queries are scaled by.
  model.layers = 46;
  const auto largest = config_of(model, [](GgufWriter& out) {
    out.set_u32("gemma2.attention.key_length", 8);
    out.set_u32("gemma2.attention.value_length", 8);
  });
  EXPECT_FLOAT_EQ(largest->query_scale, 1.0F / std::sqrt(2.0F));
  model.heads = 3;  // of which its dimensions are no multiple
  const auto strange = config_of(model, [](GgufWriter& out) {
    out.set_u32("gemma2.attention.key_length", 8);
    out.set_u32("gemma2.attention.value_length", 8);
  });
  EXPECT_FLOAT_EQ(strange->query_scale, 1.0F / std::sqrt(4.0F / 3.0F));
  model.heads = SmallModel().heads;
  model.layers = 5;
  const auto off = config_of(model, [](GgufWriter& out) {
    out.set_f32("gemma2.attn_logit_softcapping", 0);
    out.set_f32("gemma2.final_logit_softcapping", 0);
  });
  ASSERT_TRUE(off) << off.error().message;
  EXPECT_EQ(off->attention_cap, 0.0F);
  EXPECT_EQ(off->logit_cap, 0.0F);
  for (const float cap : {-1.0F, 1e-6F})
    expect_invalid(
        config_of(model, [=](GgufWriter& out) { out.set_f32("gemma2.attn_logit_softcapping", cap); }),
        "gemma2.attn_logit_softcapping is");
  expect_invalid(config_of(model,
                           [](GgufWriter& out) {
                             out.set_i32s("gemma2.attention.sliding_window_pattern",
                                          std::vector<std::int32_t>{1});
                           }),
                 "is no array of 5 flags");
}

TEST(ModelConfig, Gemma3) {
  SmallModel model;
  model.architecture = "gemma3";
  model.layers = 7;
  const auto with = [&](std::uint32_t window, std::uint32_t context = 16) {
    model.context = context;
    return config_of(model, [=](GgufWriter& out) {
      out.set_u32("gemma3.attention.sliding_window", window);
      out.set_f32("gemma3.rope.freq_base", 1e6F);
      out.set_string("gemma3.rope.scaling.type", "linear");
      out.set_f32("gemma3.rope.scaling.factor", 8.0F);
    });
  };
  const auto config = with(8);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->qk_norm && config->post_norms);
  EXPECT_EQ(config->attention_cap, 0.0F);
  EXPECT_EQ(config->logit_cap, 0.0F);
  EXPECT_THAT(local_layers(*config), ElementsAre(true, true, true, true, true, false, true));
  EXPECT_EQ(config->layer(0).window, 8U);
  EXPECT_EQ(config->layer(5).window, 0U);
  EXPECT_EQ(config->ropes[0].base, 1e6F);
  EXPECT_EQ(config->ropes[0].factor, 8.0F);
  ASSERT_EQ(config->ropes.size(), 2U);
  EXPECT_EQ(config->ropes[1].base, 10'000.0F);
  EXPECT_EQ(config->ropes[1].factor, 1.0F);
  EXPECT_EQ(config->ropes[1].scaling, RopeScaling::none);
  EXPECT_EQ(config->ropes[1].dim, config->ropes[0].dim);
  // As long as the context it hides nothing, but its layers rotate as they do.
  const auto wide = with(16);
  EXPECT_FALSE(wide->windowed());
  EXPECT_EQ(wide->layer(0).rope, 1U);
  EXPECT_TRUE(with(0)->layers.empty());
  EXPECT_EQ(with(0)->ropes.size(), 1U);
}

TEST(ModelConfig, Gemma3MayNameTheBasesOfGlobalAndLocalLayersApart) {
  SmallModel model;
  model.architecture = "gemma3";
  model.layers = 7;
  model.context = 16;
  const auto config = config_of(model, [](GgufWriter& out) {
    out.set_u32("gemma3.attention.sliding_window", 8);
    out.set_f32("gemma3.rope.global.freq_base", 1e6F);
    out.set_f32("gemma3.rope.local.freq_base", 20'000.0F);
  });
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->ropes.size(), 2U);
  EXPECT_EQ(config->ropes[0].base, 1e6F);
  EXPECT_EQ(config->ropes[1].base, 20'000.0F);
}

TEST(ModelConfig, Granite) {
  SmallModel model;
  model.architecture = "granite";
  const auto plain = config_of(model);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->rope_style, kernels::RopeStyle::interleaved);
  EXPECT_EQ(plain->residual_scale, 1.0F);
  EXPECT_TRUE(plain->ropes[0].rotates);
  const auto with = [&](float factor) {
    return config_of(model, [=](GgufWriter& out) {
      out.set_f32("granite.embedding_scale", 12 * factor);
      out.set_f32("granite.residual_scale", 0.25F * factor);
      out.set_f32("granite.attention.scale", 0.125F * factor);
      out.set_f32("granite.logit_scale", 8 * factor);
    });
  };
  const auto scaled = with(1);
  ASSERT_TRUE(scaled) << scaled.error().message;
  EXPECT_EQ(scaled->embedding_scale, 12.0F);
  EXPECT_EQ(scaled->residual_scale, 0.25F);
  EXPECT_EQ(scaled->query_scale, 0.125F);
  EXPECT_EQ(scaled->logit_scale, 8.0F);
  EXPECT_EQ(scaled->stream_scale(), 48.0F);
  EXPECT_FLOAT_EQ(scaled->stream_eps(), 1.6e-4F);
  const auto off = with(0);
  EXPECT_EQ(off->embedding_scale, 1.0F);
  EXPECT_EQ(off->residual_scale, 1.0F);
  EXPECT_EQ(off->query_scale, plain->query_scale);
  EXPECT_EQ(off->logit_scale, 1.0F);
  expect_invalid(with(-1), "granite.embedding_scale is -12");
  const auto still =
      config_of(model, [](GgufWriter& out) { out.set_bool("granite.rope.scaling.finetuned", false); });
  EXPECT_FALSE(still->ropes[0].rotates);
  // Files of llama.cpp's model saver have the keys in every family.
  model.architecture = "llama";
  EXPECT_EQ(
      config_of(model, [](GgufWriter& out) { out.set_f32("llama.residual_scale", 0.5F); })->residual_scale,
      1.0F);
}

TEST(ModelConfig, Mistral3) {
  SmallModel model;
  model.architecture = "mistral3";
  EXPECT_EQ(config_of(model)->temperature_scale, 0.0F);
  const auto with = [&](float multiplier, std::uint32_t rope_dim = 2) {
    return config_of(model, [=](GgufWriter& out) {
      out.set_string("mistral3.rope.scaling.type", "yarn");
      out.set_f32("mistral3.rope.scaling.factor", 16.0F);
      out.set_u32("mistral3.rope.scaling.original_context_length", 4);
      out.set_f32("mistral3.rope.scaling.yarn_log_multiplier", multiplier);
      out.set_f32("mistral3.attention.temperature_scale", 0.1F);
      out.set_u32("mistral3.attention.key_length", 4);
      out.set_u32("mistral3.attention.value_length", 4);
      out.set_u32("mistral3.rope.dimension_count", rope_dim);
    });
  };
  const auto config = with(1, 4);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->temperature_scale, 0.1F);
  EXPECT_EQ(config->temperature_length, 4U);
  const float whole = 1.0F + 0.1F * std::log(16.0F);
  EXPECT_FLOAT_EQ(config->ropes[0].attn_factor * whole, 1.0F) << "the multiplier takes YaRN's own back";
  EXPECT_FLOAT_EQ(with(0, 4)->ropes[0].attn_factor, 1.0F);
  expect_unsupported(with(1, 2), "an attention temperature where 2 of 4 values of a head are rotated",
                     "mistral3.attention.temperature_scale");
}

TEST(ModelConfig, SmolLm3) {
  SmallModel model;
  model.architecture = "smollm3";
  model.layers = 9;
  const auto config = config_of(model);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->windowed());
  for (std::uint32_t i = 0; i < 9; ++i) EXPECT_EQ(config->rope_of(i).rotates, i != 3 && i != 7) << i;
}

TEST(ModelConfig, MixturesOfExperts) {
  SmallModel mixtral;
  mixtral.experts = 4;
  mixtral.experts_used = 2;
  const auto config = config_of(mixtral);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->n_experts, 4U);
  EXPECT_EQ(config->n_experts_used, 2U);
  EXPECT_EQ(config->expert_ffn_dim, 6U);  // Mixtral's files have no other length
  EXPECT_EQ(config->ffn_dim, 0U);
  SmallModel qwen = mixtral;
  qwen.architecture = "qwen3moe";
  const auto own = [](GgufWriter& out) { out.set_u32("qwen3moe.expert_feed_forward_length", 3); };
  EXPECT_EQ(config_of(qwen, own)->expert_ffn_dim, 3U);

  const auto with = [](SmallModel model, std::uint32_t experts, std::uint32_t used) {
    model.experts = experts;
    model.experts_used = used;
    GgufWriter out;
    out.set_string("general.architecture", model.architecture);
    const auto key = [&](const char* name) { return model.architecture + "." + name; };
    for (const char* name : {"block_count", "context_length", "embedding_length", "feed_forward_length"})
      out.set_u32(key(name), 8);
    out.set_u32(key("attention.head_count"), 2);
    out.set_f32(key("attention.layer_norm_rms_epsilon"), 1e-5F);
    out.set_u32(key("expert_count"), experts);
    out.set_u32(key("expert_used_count"), used);
    const auto header = out.header();
    return read_model_config(*Gguf::parse(std::as_bytes(std::span(header))));
  };
  expect_invalid(with(mixtral, 4, 5), "llama.expert_used_count is 5; 1 to 4 is allowed");
  expect_invalid(with(mixtral, 4, 0), "llama.expert_used_count is 0");
  expect_invalid(with(mixtral, 1024, 65), "1 to 64 is allowed");
  expect_invalid(with(mixtral, 1025, 2), "llama.expert_count is 1025; 1 to 1024 is allowed");
  expect_invalid(with(qwen, 0, 0), "qwen3moe.expert_count is 0");
  qwen.architecture = "qwen3";
  expect_unsupported(with(qwen, 4, 2), "a mixture of 4 experts, which no qwen3 model", "qwen3.expert_count");
  qwen.architecture = "phi3";
  expect_unsupported(with(qwen, 16, 2), "a mixture of 16 experts, which no phi3 model", "phi3.expert_count");
  const auto off = [](GgufWriter& out) { out.set_u32("llama.expert_feed_forward_length", 0); };
  EXPECT_EQ(config_of(mixtral, off)->expert_ffn_dim, 6U) << "0 is as if the key were absent";
  SmallModel unsaid;
  unsaid.architecture = "qwen3moe";
  expect_invalid(config_of(unsaid), "qwen3moe.expert_count is missing");
}

TEST(ModelConfig, VocabularyAndTableMustAgree) {
  const std::vector<std::string> four{"a", "b", "c", "d"};
  expect_invalid(config_of({}, [&](GgufWriter& out) { out.set_strings("tokenizer.ggml.tokens", four); }),
                 "has 4 tokens and the embedding table 5 rows");
}

TEST(ModelConfig, MissingKeysAreNamed) {
  GgufWriter out;
  auto header = out.header();
  expect_invalid(read_model_config(*Gguf::parse(std::as_bytes(std::span(header)))),
                 "general.architecture is missing");
  out.set_string("general.architecture", "llama");
  header = out.header();
  expect_invalid(read_model_config(*Gguf::parse(std::as_bytes(std::span(header)))),
                 "llama.block_count is missing");
}

}  // namespace
}  // namespace flyball::model
