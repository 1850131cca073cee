// MLX directories: what is read of a good one, and what a spoiled one is told.
#include "backends/model/mlx.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "backends/model/model_file.hpp"
#include "backends/text/tokenizer.hpp"
#include "tests/backends/model/mlx/directory.hpp"

namespace flyball::model {
namespace {

using nlohmann::json;
using test::MlxTensor;
using test::MlxTestDirectory;
using test::MlxTexts;
using ::testing::HasSubstr;

struct Opened {
  MlxTexts texts;
  Result<std::unique_ptr<ModelFile>> file;
  explicit Opened(const MlxTestDirectory& d) : texts(d), file(ModelFile::from_mlx(texts.files())) {}
};

TEST(Mlx, ReadsADirectory) {
  const Opened opened{MlxTestDirectory()};
  ASSERT_TRUE(opened.file) << opened.file.error().message;
  const ModelFile& file = **opened.file;
  const ModelConfig& c = file.config();
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.n_layers, 1U);
  EXPECT_EQ(c.head_dim, 32U);
  EXPECT_EQ(c.n_kv_heads, 1U);
  EXPECT_FLOAT_EQ(c.norm_eps, 1e-6F);
  EXPECT_EQ(c.rope_style, kernels::RopeStyle::half);
  EXPECT_FALSE(c.tied_embeddings);
  EXPECT_EQ(file.format(), "MLX");
  EXPECT_FALSE(file.mapped());
  const Weight& down = file.weights().of(WeightRole::down, 0);
  EXPECT_EQ(down.type, kernels::DType::affine4_g32);
  EXPECT_EQ(down.rows, 64U);
  EXPECT_EQ(down.cols, 96U);
  EXPECT_EQ(down.scale_type, kernels::DType::f16);
  EXPECT_EQ(down.matrix_bytes(), 64U * (96 / 2 + 2 * 2 * 96 / 32));
  EXPECT_EQ(file.main_quantization(), "AFFINE4_G32");
  EXPECT_EQ(file.weights().of(WeightRole::output_norm).type, kernels::DType::f32);  // widened
  EXPECT_EQ(**file.gguf().get_string("tokenizer.chat_template"), "{{ bos_token }}");
  // 64,512 codes of half a byte with two F16 for each 32 of them, and three norms of 64, widened to F32.
  EXPECT_EQ(file.weight_bytes(), 41088U);

  const auto tokenizer = text::Tokenizer::load(file.gguf());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("ab</s>", {}), (std::vector<Token>{1, 259, 262, 2}));
  EXPECT_TRUE((*tokenizer)->is_end_of_generation(2));
}

TEST(Mlx, WhatMayDiffer) {
  MlxTestDirectory d;
  d.config["tie_word_embeddings"] = true;  // lm_head stays in the files, unused
  d.config["rope_scaling"] = {{"rope_type", "yarn"},
                              {"factor", 4.0},
                              {"original_max_position_embeddings", 32},
                              {"attention_factor", 1.5},
                              {"beta_fast", 16}};
  d.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {16}});
  d.generation_config = R"({"eos_token_id": [2, 5]})";
  d.chat_template = "from the file";
  d.config["head_dim"] = 32;
  const Opened opened(d);
  ASSERT_TRUE(opened.file) << opened.file.error().message;
  const ModelConfig& c = (*opened.file)->config();
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_EQ(c.ropes[0].scaling, RopeScaling::yarn);
  EXPECT_EQ(c.ropes[0].factor, 4.0F);
  EXPECT_EQ(c.ropes[0].original_context, 32U);
  EXPECT_EQ(c.ropes[0].beta_fast, 16.0F);
  // Theirs is the product of ours and YaRN's own.
  EXPECT_NEAR(c.ropes[0].attn_factor * (1 + 0.1 * std::log(4.0)), 1.5, 1e-6);
  EXPECT_EQ(**(*opened.file)->gguf().get_string("tokenizer.chat_template"), "from the file");

  MlxTestDirectory untold;  // no word on ties, and no lm_head
  untold.config.erase("tie_word_embeddings");
  for (const char* part : {"weight", "scales", "biases"}) untold.remove(std::string("lm_head.") + part);
  EXPECT_TRUE((*Opened(untold).file)->config().tied_embeddings);

  MlxTestDirectory llama3;
  llama3.config["rope_scaling"] = {{"rope_type", "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 64}};
  const auto factors = (*Opened(llama3).file)->config().ropes[0].frequency_factors;
  ASSERT_EQ(factors.size(), 16U);
  EXPECT_EQ(factors.front(), 1.0F);
  EXPECT_EQ(factors.back(), 8.0F);

  MlxTestDirectory traditional;
  traditional.config["rope_traditional"] = true;
  EXPECT_EQ((*Opened(traditional).file)->config().rope_style, kernels::RopeStyle::interleaved);
}

// Three files name them, by text and by id, and models add their own: none is dropped.
TEST(Mlx, EveryTokenThatAFileCallsAnEndIsOne) {
  MlxTestDirectory d;
  d.generation_config = json{{"eos_token_id", {5, 2, 6, 7, 8}}}.dump();
  d.config["eos_token_id"] = {9, 10, 5, 11};
  const Opened opened(d);
  ASSERT_TRUE(opened.file) << opened.file.error().message;
  const auto tokenizer = text::Tokenizer::load((*opened.file)->gguf());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->eos(), 2);
  for (const Token token : {2, 5, 6, 7, 8, 9, 10, 11}) EXPECT_TRUE((*tokenizer)->is_end_of_generation(token));
  for (const Token token : {0, 1, 3, 4, 12}) EXPECT_FALSE((*tokenizer)->is_end_of_generation(token));
}

// A tokenizer.json that has a marker among its words, or among added tokens that are not special.
TEST(Mlx, TheTemplatesMarkersAreTokensOfItsOwnTextWhateverTheirKind) {
  for (const bool is_word : {true, false}) {
    MlxTestDirectory d;
    auto& vocab = d.tokenizer["model"]["vocab"];
    vocab.erase("ab");
    d.tokenizer["model"]["merges"] = json::array();
    const std::string marker = "<start_of_turn>";
    if (is_word)
      vocab[marker] = 262;
    else
      d.tokenizer["added_tokens"].push_back({{"id", 262}, {"content", marker}, {"special", false}});
    d.tokenizer_config["chat_template"] = marker + "{{ messages[0].content }}";
    const Opened opened(d);
    ASSERT_TRUE(opened.file) << opened.file.error().message;
    const auto tokenizer = text::Tokenizer::load((*opened.file)->gguf());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const std::vector<text::TextSpan> own{{0, marker.size()}};
    const auto tokens = (*tokenizer)->encode(marker + marker, {.add_special = false, .control_in = &own});
    EXPECT_EQ(tokens.front(), 262) << is_word;
    EXPECT_EQ(std::ranges::count(tokens, 262), 1) << is_word;
  }
}

struct Spoiled {
  std::function<void(MlxTestDirectory&)> spoil;
  const char* message;
  ErrorCode code = ErrorCode::model_invalid;
};
constexpr auto kUnsupported = ErrorCode::model_unsupported;

void expect_refused(std::span<const Spoiled> cases) {
  for (const Spoiled& c : cases) {
    MlxTestDirectory d;
    c.spoil(d);
    const Opened opened(d);
    ASSERT_FALSE(opened.file) << c.message;
    EXPECT_EQ(opened.file.error().code, c.code) << c.message << ": " << opened.file.error().message;
    EXPECT_THAT(opened.file.error().message, HasSubstr(c.message));
    EXPECT_FALSE(opened.file.error().where.empty()) << c.message;
  }
}

TEST(Mlx, RefusesConfigs) {
  const Spoiled cases[] = {
      {[](auto& d) { d.config = json::array(); }, "config.json is not a JSON object"},
      {[](auto& d) { d.config.erase("model_type"); }, "model_type is missing"},
      {[](auto& d) { d.config["model_type"] = "mamba"; }, "model_type is mamba", kUnsupported},
      {[](auto& d) { d.config["hidden_size"] = 0; }, "(config.json: hidden_size)"},
      {[](auto& d) { d.config["hidden_size"] = -64; }, "hidden_size is -64, not a count"},
      {[](auto& d) { d.config["hidden_size"] = "64"; }, "hidden_size is \"64\", not a count"},
      {[](auto& d) { d.config["hidden_size"] = 1ULL << 40; }, "beyond 32 bits"},
      {[](auto& d) { d.config.erase("num_hidden_layers"); }, "(config.json: num_hidden_layers)"},
      {[](auto& d) { d.config["num_hidden_layers"] = 2; }, "(model.layers.1.input_layernorm.weight)"},
      {[](auto& d) { d.config["num_hidden_layers"] = 5000; }, "(config.json: num_hidden_layers)"},
      {[](auto& d) { d.config["num_key_value_heads"] = 3; }, "(config.json: num_key_value_heads)"},
      {[](auto& d) { d.config.erase("rms_norm_eps"); }, "rms_norm_eps is missing"},
      {[](auto& d) { d.config["rope_theta"] = "much"; }, "rope_theta is \"much\", not a number"},
      {[](auto& d) { d.config["vocab_size"] = 1ULL << 40; },
       "vocab_size is missing, or not 1 to 4194304: it is 1099511627776"},
      {[](auto& d) { d.config["vocab_size"] = 300; },
       "vocab_size is 300, but model.embed_tokens.weight has 264"},
      {[](auto& d) { d.config["hidden_act"] = "gelu"; }, "hidden_act is \"gelu\"", kUnsupported},
      {[](auto& d) { d.config["partial_rotary_factor"] = 0.5; }, "partial_rotary_factor is 0.5",
       kUnsupported},
      {[](auto& d) { d.config["layer_types"] = {"sliding_attention"}; }, "layer_types", kUnsupported},
      {[](auto& d) { d.config["model_type"] = "mistral", d.config["sliding_window"] = 64; },
       "sliding_window is 64", kUnsupported},
      {[](auto& d) { d.config["model_type"] = "qwen3_moe"; }, "norm_topk_prob", kUnsupported},
      {[](auto& d) {
         d.config["rope_scaling"] = {{"type", "dynamic"}};
       },
       "rope_type is \"dynamic\"", kUnsupported},
      {[](auto& d) {
         d.config["rope_scaling"] = {{"type", "linear"}};
       },
       "factor is missing"},
      {[](auto& d) {
         d.config["rope_scaling"] = {{"type", "llama3"}, {"factor", 8}};
       },
       "low_freq_factor is missing"},
      {[](auto& d) {
         d.config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}, {"mscale", 0.7}};
       },
       "mscale is 0.7", kUnsupported},
      {[](auto& d) { d.config["quantization"]["bits"] = 5; }, "bits are 5 in groups of 32", kUnsupported},
      {[](auto& d) { d.config["quantization"]["group_size"] = 128; }, "in groups of 128", kUnsupported},
      {[](auto& d) { d.config["quantization"]["mode"] = "mxfp4"; }, "mode is \"mxfp4\"", kUnsupported},
      {[](auto& d) { d.config["quantization"].erase("bits"); }, "bits is missing"},
      {[](auto& d) {
         d.config["quantization"] = {{"quant_method", "awq"}};
       },
       "quant_method is \"awq\"", kUnsupported},
      {[](auto& d) { d.config.erase("quantization"); }, "config.json does not say how it is quantized"},
      {[](auto& d) { d.config["quantization"]["lm_head"] = false; },
       "config.json does not say how it is quantized"},
      {[](auto& d) {
         d.config["quantization"]["lm_head"] = {{"bits", 8}, {"group_size", 32}};
       },
       "lm_head.weight has rows of 8 words and 2 groups, which AFFINE8_G32 has not"},
  };
  expect_refused(cases);
}

TEST(Mlx, RefusesTensors) {
  const Spoiled cases[] = {
      {[](auto& d) { d.remove("model.norm.weight"); }, "(model.norm.weight)"},
      {[](auto& d) { d.remove("lm_head.weight"); }, "lm_head.scales has no weight beside it"},
      {[](auto& d) { d.remove("lm_head.biases"); }, "lm_head.weight has scales and no biases"},
      {[](auto& d) { d.remove("lm_head.scales"); }, "lm_head.biases has no scales beside it"},
      {[](auto& d) { d.tensor("lm_head.weight").dtype = "I32"; }, "is I32, not U32"},
      {[](auto& d) { d.tensor("lm_head.scales").dtype = "BF16"; }, "is BF16 and the biases F16"},
      {[](auto& d) {
         d.tensor("lm_head.scales").shape = {132, 4};
       },
       "has not the rows of its scales"},
      {[](auto& d) {
         d.tensor("lm_head.weight").shape = {264, 4};
       },
       "has rows of 4 words and 2 groups"},
      {[](auto& d) { d.tensor("model.norm.weight").dtype = "I32"; }, "is I32; without scales it must be"},
      {[](auto& d) { d.tensor("model.norm.weight").shape = {}; }, "is a single value"},
      {[](auto& d) { d.tensor("model.norm.weight").shape = {32}; },
       "[1, 32] where the metadata asks for [1, 64]"},
      {[](auto& d) {
         d.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "F16", {64}});
       },
       "k_proj.bias"},
      {[](auto& d) {
         d.tensors.push_back({"model.layers.0.lora.weight", "F16", {64}});
       },
       "is none that this build knows"},
      {[](auto& d) {
         d.tensors.push_back({"model.layers.00.mlp.up_proj.bias", "F16", {64}});
       },
       "is none that this build"},
      {[](auto& d) {
         d.tensors.push_back({"model.layers.99999999999.mlp.up_proj.weight", "F16", {64}});
       },
       "is none that this build knows"},
      {[](auto& d) {
         d.tensors.push_back({"odd", "F16", {64}});
       },
       "odd is none that this build knows"},
      {[](auto& d) {
         for (auto& t : d.tensors)
           if (t.name.starts_with("lm_head")) t.name = "lm_tail" + t.name.substr(7);
       },
       "tie_word_embeddings is false, but the tensor lm_head.weight is missing"},
  };
  expect_refused(cases);

  MlxTestDirectory d;
  MlxTexts texts(d);
  texts.shards.push_back(texts.shards.front());
  const auto twice = ModelFile::from_mlx(texts.files());
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("appears twice"));
}

TEST(Mlx, RefusesTokenizers) {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto split = [&](const json& first) {
    return json{{"type", "Sequence"}, {"pretokenizers", {first, byte_level}}};
  };
  const json odd = {
      {"type", "Split"}, {"pattern", {{"Regex", "odd+"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Spoiled cases[] = {
      {[](auto& d) { d.tokenizer = 1; }, "tokenizer.json is not a JSON object"},
      {[](auto& d) { d.tokenizer.erase("model"); }, "model is missing"},
      {[](auto& d) { d.tokenizer["model"]["type"] = "Unigram"; }, "type is \"Unigram\"", kUnsupported},
      {[](auto& d) { d.tokenizer["model"]["dropout"] = 0.1; }, "dropout is 0.1", kUnsupported},
      {[](auto& d) { d.tokenizer["model"]["byte_fallback"] = false; }, "neither byte-level", kUnsupported},
      {[&](auto& d) { d.tokenizer["pre_tokenizer"] = split(odd), d.tokenizer["normalizer"] = nullptr; },
       "splits by odd+: a pattern that this build does not know", kUnsupported},
      {[&](auto& d) {
         d.tokenizer["pre_tokenizer"] = split({{"type", "Whitespace"}}), d.tokenizer.erase("normalizer");
       },
       "type is Whitespace", kUnsupported},
      {[](auto& d) {
         d.tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}}, d.tokenizer.erase("normalizer");
       },
       "add_prefix_space", kUnsupported},
      {[](auto& d) {
         d.tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       "neither LLaMA's", kUnsupported},
      {[](auto& d) {
         d.tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array_t(65)}};
       },
       "normalizers has 65 parts, the limit is 64"},
      {[](auto& d) {
         d.tokenizer["normalizer"] = {{"type", "Lowercase"}};
       },
       "type is Lowercase", kUnsupported},
      {[](auto& d) { d.tokenizer["model"].erase("vocab"); }, "vocab is missing"},
      {[](auto& d) { d.tokenizer["model"]["vocab"]["a"] = -1; }, "vocab has a token that is no count"},
      {[](auto& d) { d.tokenizer["model"]["vocab"]["a"] = 264; },
       "vocab has token 264, but the embedding table 264"},
      {[](auto& d) { d.tokenizer["model"]["vocab"]["a"] = 0; }, "as token 0"},
      {[](auto& d) { d.tokenizer["added_tokens"][0]["id"] = 263; }, "as two tokens"},
      {[](auto& d) { d.tokenizer["added_tokens"][0]["lstrip"] = true; }, "lstrip of \"<unk>\" is true",
       kUnsupported},
      {[](auto& d) { d.tokenizer["added_tokens"][0].erase("content"); }, "content is missing"},
      {[](auto& d) { d.tokenizer["model"].erase("merges"); }, "merges is missing"},
      {[](auto& d) {
         d.tokenizer["model"]["merges"] = {{"a", "b", "c"}};
       },
       "entry 0, which is no pair"},
      {[](auto& d) { d.tokenizer["model"]["unk_token"] = "<none>"; },
       "unk_token is \"<none>\", which is no token"},
      {[](auto& d) { d.tokenizer_config["eos_token"] = "<none>"; },
       "eos_token is \"<none>\", which is no token"},
      {[](auto& d) { d.config["eos_token_id"] = 264; }, "eos_token_id is 264; tokens are counts below 264"},
      {[](auto& d) {
         d.generation_config = json{{"eos_token_id", {0, 1, -1}}}.dump();
       },
       "generation_config.json: eos_token_id is -1; tokens are counts below 264"},
      {[](auto& d) { d.tokenizer_config["chat_template"] = json::array(); }, "a list without \"default\""},
      {[](auto& d) { d.tokenizer_config["chat_template"] = 5; }, "chat_template is 5, not a text"},
  };
  expect_refused(cases);

  MlxTestDirectory d;  // found where the tokenizer is built
  d.tokenizer["model"]["merges"] = {"a z"};
  const Opened opened(d);
  ASSERT_TRUE(opened.file) << opened.file.error().message;
  const auto tokenizer = text::Tokenizer::load((*opened.file)->gguf());
  ASSERT_FALSE(tokenizer);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("not two tokens that make one"));
}

TEST(Mlx, RefusesFilesThatAreNoJson) {
  const MlxTestDirectory d;
  for (std::string MlxTexts::*text : {&MlxTexts::config, &MlxTexts::tokenizer, &MlxTexts::tokenizer_config}) {
    for (const std::string& spoiled :
         {std::string("{"), std::string(100'000, '['), std::string("{\"a\":1,\"a\":1}")}) {
      MlxTexts texts(d);
      texts.*text = spoiled;
      const auto file = ModelFile::from_mlx(texts.files());
      ASSERT_FALSE(file);
      EXPECT_EQ(file.error().code, ErrorCode::model_invalid);
      EXPECT_THAT(file.error().where, HasSubstr(".json byte"));
    }
  }
}

TEST(MlxIndex, NamesFilesOfTheDirectory) {
  const auto names =
      read_mlx_index(R"({"weight_map": {"a": "b.safetensors", "b": "a.safetensors", "c": "b.safetensors"}})");
  ASSERT_TRUE(names);
  EXPECT_EQ(*names, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  for (const char* file :
       {"../a.safetensors", "/a.safetensors", ".safetensors", "a.bin", "d/a.safetensors"}) {
    const auto refused = read_mlx_index(json{{"weight_map", {{"t", file}}}}.dump());
    ASSERT_FALSE(refused) << file;
    EXPECT_THAT(refused.error().message, HasSubstr("t lies in"));
  }
  for (const char* text :
       {"{}", R"({"weight_map": []})", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})", ""})
    EXPECT_FALSE(read_mlx_index(text)) << text;
}

TEST(MlxDirectory, IsReadAsAModel) {
  const auto at = std::filesystem::path(testing::TempDir()) / "flyball_mlx_directory";
  std::filesystem::create_directories(at);
  const auto refusal = [&] { return ModelFile::open(at).error(); };
  EXPECT_EQ(refusal().code, ErrorCode::io_error);
  EXPECT_EQ(refusal().where, at.string());
  EXPECT_THAT(refusal().message, HasSubstr("there is no config.json, tokenizer.json, model.safetensors;"));
  EXPECT_THAT(refusal().message, ::testing::Not(HasSubstr("GGUF")));
  const MlxTexts texts{MlxTestDirectory()};
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(at / name, std::ios::binary) << text;
  };
  write("config.json", texts.config);
  write("tokenizer.json", texts.tokenizer);
  EXPECT_THAT(refusal().message, HasSubstr("there is no model.safetensors;"));
  write("b.gguf", "");
  EXPECT_THAT(refusal().message, HasSubstr("GGUF model is one file, such as b.gguf"));
  write("model.safetensors.index.json", R"({"weight_map": {"a": "gone.safetensors"}})");
  EXPECT_EQ(refusal().where, (at / "gone.safetensors").string());
  std::filesystem::remove(at / "model.safetensors.index.json");
  write("model.safetensors", texts.shards[0]);
  const auto file = ModelFile::open(at);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE((*file)->mapped());
  std::filesystem::remove_all(at);
}

}  // namespace
}  // namespace flyball::model
