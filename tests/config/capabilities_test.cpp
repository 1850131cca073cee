// The table of what is served: each feature by name, and what engines and upstreams say of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/capabilities.hpp"
#include "config/engine_kinds.hpp"

namespace flyball::config {
namespace {

TEST(Capabilities, EveryFeatureHasANameAndAnAnswerForEachEngine) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kFeatures; ++i) {
    const auto feature = static_cast<Feature>(i);
    EXPECT_TRUE(names.insert(to_string(feature)).second) << to_string(feature);
    for (const EngineKind& kind : kEngineKinds) {
      const Capability found = capability(kind.id, {}, feature);
      EXPECT_EQ(found.reason.empty(), found.served == Served::yes) << to_string(feature);
    }
    EXPECT_EQ(capability("vllm", {}, feature).served, Served::no) << "no upstream can be configured yet";
  }
}

TEST(Capabilities, TextAloneIsServed) {
  for (const Feature feature :
       {Feature::vision, Feature::audio, Feature::speech_output, Feature::embeddings, Feature::rerank,
        Feature::adapters, Feature::draft_model, Feature::fine_tuning, Feature::image_generation})
    EXPECT_EQ(capability(kCpu.id, {}, feature).served, Served::no) << to_string(feature);
  EXPECT_EQ(capability(kOpenCl.id, {}, Feature::logprobs).served, Served::limit);
  EXPECT_EQ(capability(kVulkan.id, {}, Feature::context).served, Served::limit);
  EXPECT_EQ(capability(kCpu.id, {}, Feature::schema).served, Served::limit);
}

TEST(Capabilities, ToolsNeedAPlaceInTheTemplate) {
  EXPECT_EQ(capability(kCpu.id, {.tool_template = true}, Feature::tools).served, Served::limit);
  EXPECT_EQ(capability(kCpu.id, {}, Feature::tools).served, Served::limit);
  EXPECT_EQ(capability(kCpu.id, {.tool_template = false}, Feature::tools).served, Served::limit);
  EXPECT_NE(capability(kCpu.id, {.tool_template = false}, Feature::tools).reason,
            capability(kCpu.id, {}, Feature::tools).reason);
}

TEST(Capabilities, InfillNeedsTokensOfTheVocabulary) {
  EXPECT_EQ(capability(kCpu.id, {.infills = true}, Feature::infill).served, Served::limit);
  EXPECT_EQ(capability(kCpu.id, {}, Feature::infill).served, Served::limit);
  EXPECT_EQ(capability(kCpu.id, {.infills = false}, Feature::infill).served, Served::no);
  EXPECT_EQ(capability(Feature::infill, {.infills = false}).served, Served::no);
}

TEST(Capabilities, TheBestEngineSpeaksForAll) {
  for (std::size_t i = 0; i < kFeatures; ++i) {
    const auto feature = static_cast<Feature>(i);
    Served best = Served::no;
    for (const EngineKind& kind : kEngineKinds)
      best = std::max(best, capability(kind.id, {}, feature).served);
    EXPECT_EQ(capability(feature).served, best) << to_string(feature);
  }
  EXPECT_EQ(capability(Feature::tools, {.tool_template = false}).served, Served::limit);
  EXPECT_EQ(sentence(capability(Feature::embeddings)), "Flyball does not serve embeddings.");
  EXPECT_EQ(sentence({Served::yes, ""}), "");
}

TEST(Capabilities, GgufAndMlxAreRead) {
  for (const EngineKind& kind : kEngineKinds) {
    EXPECT_EQ(reads_weights(kind.id, "gguf").served, Served::yes);
    EXPECT_EQ(reads_weights(kind.id, "mlx").served, Served::yes);
    for (const char* format : {"mlc", "awq", "gptq", "exl2", "exl3", "bitsandbytes", "fp8", "coreml", "zip"})
      EXPECT_EQ(reads_weights(kind.id, format).served, Served::no) << format;
  }
  EXPECT_EQ(reads_weights("vllm", "gguf").served, Served::no);
}

TEST(Capabilities, EachEngineSaysHowItRunsAMixture) {
  EXPECT_TRUE(mixture_of_experts(kCpu.id).contains("from disk"));
  EXPECT_TRUE(mixture_of_experts(kOpenCl.id).contains("all experts"));
  EXPECT_EQ(mixture_of_experts("vllm"), "");
}

}  // namespace
}  // namespace flyball::config
