// The engine catalogue: the shipped one against the tables of the documents, and every kind of mistake in
// another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "policy/engines.hpp"
#include "policy/facts.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

const EngineEntry& engine(std::string_view id) {
  static const EngineEntry kNone;
  const EngineEntry* found = shipped_engines().find(id);
  EXPECT_TRUE(found) << id;
  return found ? *found : kNone;
}

// What the issue and the documents name, the kernel layer included.
TEST(Engines, EverySystemOfTheDocumentsIsThere) {
  for (const char* id : {"llama_cpp",
                         "mlx",
                         "mlx_lm",
                         "mlx_vlm",
                         "mlc_llm",
                         "ollama",
                         "lm_studio",
                         "jan",
                         "cortex_cpp",
                         "llamafile",
                         "open_webui",
                         "vllm",
                         "sglang",
                         "tgi",
                         "tensorrt_llm",
                         "exllamav2",
                         "exllamav3",
                         "candle",
                         "apple_foundation_models",
                         "core_ml",
                         "bitsandbytes",
                         "airllm",
                         "exo",
                         "transformers_mps",
                         "webllm",
                         "gpt4all",
                         "localai",
                         "ratchet",
                         "aphrodite",
                         "lightllm",
                         "koboldcpp",
                         "text_generation_webui",
                         "mistral_rs",
                         "omlx",
                         "dynamo",
                         "ds4",
                         "ggml",
                         "flash_attention",
                         "paged_attention",
                         "marlin",
                         "triton",
                         "cutlass",
                         "apple_kernels",
                         "bitsandbytes_kernels",
                         "mojo_max",
                         "burn",
                         "autogptq",
                         "awq_runner",
                         "outlines",
                         "lmql",
                         "apple_speech",
                         "whisper_cpp",
                         "whisper_mlx",
                         "kokoro",
                         "deepspeed_mii",
                         "fastertransformer"})
    EXPECT_EQ(engine(id).id, id);
  EXPECT_EQ(shipped_engines().documents.size(), 5U);
}

TEST(Engines, OllamaIsDeniedAndMayBeAModelSource) {
  const EngineEntry& ollama = engine("ollama");
  EXPECT_THAT(ollama.denied, HasSubstr("hides the engine and the kernels"));
  EXPECT_THAT(ollama.here, IsEmpty());
  EXPECT_TRUE(ollama.model_source);
  for (const EngineEntry& other : shipped_engines().engines)
    EXPECT_EQ(other.denied.empty(), other.id != "ollama") << other.id;
}

// Every target of this house stands for something, and every upstream kind for the system of its name.
TEST(Engines, WhatStandsForThemIsThisHouse) {
  std::vector<std::string> used;
  for (const EngineEntry& e : shipped_engines().engines)
    for (const Target& target : e.here) used.push_back(target.backend);
  for (const std::string_view backend : default_targets()->names()) {
    EXPECT_THAT(used, testing::Contains(backend));
    if (default_targets()->is_remote(backend)) {
      ASSERT_THAT(engine(backend).here, testing::Not(IsEmpty())) << backend;
      EXPECT_EQ(engine(backend).here.front().backend, backend);
    }
  }
}

struct MatrixRow {
  const char *id, *moe, *paged, *streaming, *licence, *maturity;
};
// "Engine Comparison Matrix" of the matrix document. Where the survey knows more of a licence, it says so
// there.
constexpr MatrixRow kMatrix[] = {
    {"mlx", "gated", "no", "streamed", "MIT", "production"},
    {"mistral_rs", "gated", "no", "streamed", "Apache-2.0", "production"},
    {"llama_cpp", "all_experts", "no", "streamed", "MIT", "production"},
    {"vllm", "gated", "yes", "streamed", "Apache-2.0", "production"},
    {"tgi", "gated", "yes", "streamed", "Apache-2.0", "production"},
    {"sglang", "partial", "yes", "streamed", "Apache-2.0", "beta"},
    {"exllamav2", "none", "no", "batched", "MIT", "beta"},
    {"ollama", "none", "no", "streamed", "MIT", "stable"},
    {"tensorrt_llm", "gated", "yes", "streamed", "Apache-2.0", "production"},
};

TEST(Engines, TheComparisonMatrix) {
  for (const MatrixRow& row : kMatrix) {
    const EngineEntry& e = engine(row.id);
    ASSERT_TRUE(e.moe && e.paged_attention && e.streaming && e.maturity) << row.id;
    EXPECT_EQ(to_string(*e.moe), row.moe) << row.id;
    EXPECT_EQ(*e.paged_attention ? "yes" : "no", std::string(row.paged)) << row.id;
    EXPECT_EQ(to_string(*e.streaming), row.streaming) << row.id;
    EXPECT_EQ(e.licence, row.licence) << row.id;
    EXPECT_EQ(to_string(*e.maturity), row.maturity) << row.id;
    EXPECT_THAT(e.kv_quant, testing::Not(IsEmpty())) << row.id;
    EXPECT_THAT(e.source, testing::Contains("matrix")) << row.id;
  }
}

struct FormatRow {
  const char* id;
  std::vector<std::string> loads, partly;
};

// "Quantization format compatibility map" of the survey.
TEST(Engines, TheFormatMap) {
  const std::vector<FormatRow> map = {
      {"llama_cpp", {"gguf"}, {"awq", "fp8"}},
      {"mlx", {"mlx"}, {}},
      {"mlc_llm", {"mlc"}, {"awq", "gptq", "fp8"}},
      {"ollama", {"gguf"}, {}},
      {"lm_studio", {"gguf", "mlx"}, {}},
      {"jan", {"gguf"}, {}},
      {"llamafile", {"gguf"}, {}},
      {"vllm", {"awq", "gptq", "bitsandbytes", "fp8"}, {}},
      {"sglang", {"awq", "gptq", "fp8"}, {"bitsandbytes"}},
      {"tgi", {"awq", "gptq", "bitsandbytes", "fp8"}, {}},
      {"tensorrt_llm", {"awq", "gptq", "fp8"}, {}},
      {"exllamav2", {"exl2"}, {}},
      {"exllamav3", {"exl2", "exl3"}, {}},
      {"candle", {"gguf"}, {}},
      {"transformers_mps", {"awq", "gptq"}, {"gguf", "bitsandbytes"}},
      {"webllm", {"mlc"}, {}},
      {"gpt4all", {"gguf"}, {}},
      {"localai", {"gguf", "awq", "gptq", "bitsandbytes", "fp8"}, {}},
      {"apple_foundation_models", {"coreml"}, {}},
      {"core_ml", {"coreml"}, {}},
  };
  for (const FormatRow& row : map) {
    EXPECT_THAT(engine(row.id).formats, ElementsAreArray(row.loads)) << row.id;
    EXPECT_THAT(engine(row.id).formats_partly, ElementsAreArray(row.partly)) << row.id;
  }
}

struct CatalogueMistake {
  const char *name, *line, *message, *where;
};

// Each is line 5 of a file that is right otherwise.
TEST(Engines, MistakesWithTheirPlace) {
  const CatalogueMistake mistakes[] = {
      {"key", "  a: {name: A, kind: engine, verdct: v, here: advice, source: [doc]}",
       "unknown key \"verdct\" in engines.a; did you mean \"verdict\"?", "e.yaml:5:30"},
      {"kind", "  a: {name: A, kind: engin, verdict: v, here: advice, source: [doc]}",
       "did you mean \"engine\"?", "e.yaml:5:22"},
      {"target", "  a: {name: A, kind: engine, verdict: v, here: [vulcan], source: [doc]}",
       "unknown target \"vulcan\"; did you mean \"vulkan\"?", "e.yaml:5:49"},
      {"profile", "  a: {name: A, kind: engine, verdict: v, here: \"cpu:latncy\", source: [doc]}",
       "did you mean \"latency\"?", "e.yaml:5:48"},
      {"document", "  a: {name: A, kind: engine, verdict: v, here: advice, source: [dooc]}",
       "unknown document \"dooc\"; did you mean \"doc\"?", "e.yaml:5:65"},
      {"denied", "  a: {name: A, kind: app, verdict: v, denied: no, here: cpu, source: [doc]}",
       "\"a\" is denied: nothing can stand for it", "e.yaml:5:57"},
      {"missing", "  a: {name: A, kind: app, verdict: v, source: [doc]}", "here", "e.yaml:5:6"},
      {"format", "  a: {name: A, kind: app, verdict: v, here: cpu, formats: [ggfu], source: [doc]}",
       "did you mean \"gguf\"?", "e.yaml:5:60"},
  };
  const std::string head = "schema: flyball.engines/v1\ndocuments: {doc: a document}\n\nengines:\n";
  for (const CatalogueMistake& m : mistakes) {
    const auto catalogue = parse_engines(head + m.line + "\n", "e.yaml");
    ASSERT_FALSE(catalogue) << m.name;
    EXPECT_EQ(catalogue.error().code, ErrorCode::config_invalid);
    EXPECT_THAT(catalogue.error().message, HasSubstr(m.message)) << m.name;
    EXPECT_EQ(catalogue.error().where, m.where) << m.name;
  }
  const std::string good = "  a: {name: A, kind: engine, verdict: v, here: advice, source: [doc]}\n";
  EXPECT_TRUE(parse_engines(head + good, "e.yaml"));
  const auto twice = parse_engines_all(head + good + good, "e.yaml");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().front().message, HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(nlohmann::json::parse(engines_schema())["title"].get<std::string>(), HasSubstr("engines"));
}

// A policy that names a system instead of a target hears which target is meant.
TEST(Engines, ASystemIsNoTarget) {
  const auto message = [](const std::string& target) {
    const auto tree =
        parse_policy("schema: flyball.policy/v1\ndefault: {because: b, use: " + target + "}\n", "p.yaml");
    return tree ? std::string() : tree.error().message;
  };
  EXPECT_THAT(message("exllamav2"), HasSubstr("the target that stands for it is opencl"));
  EXPECT_THAT(message("tgi"), HasSubstr("for advice only"));
  EXPECT_THAT(message("ollama"), HasSubstr("there is no such target on purpose: it hides the engine"));
}

}  // namespace
}  // namespace flyball::policy
