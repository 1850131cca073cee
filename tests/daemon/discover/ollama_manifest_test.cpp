#include "daemon/discover/ollama_manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flyball::discover {
namespace {

using testing::HasSubstr;

std::string layer(const std::string& kind, const std::string& digest, const std::string& size = "7") {
  return R"({"mediaType": "application/vnd.ollama.image.)" + kind + R"(", "digest": ")" + digest +
         R"(", "size": )" + size + "}";
}
std::string manifest(const std::string& layers) {
  return R"({"schemaVersion": 2, "config": {"digest": "sha256:0"}, "layers": [)" + layers + "]}";
}
const std::string kDigest = "sha256:" + std::string(63, 'a') + "0";

TEST(OllamaManifest, TellsWhichBlobHasTheWeightsAndWhatLiesBesideThem) {
  const auto read =
      read_ollama_manifest(manifest(layer("model", kDigest, "4683073952") + "," + layer("template", kDigest) +
                                    "," + layer("projector", kDigest) + "," + layer("license", "anything")));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->models.size(), 1U);
  EXPECT_EQ(read->models[0].digest, std::string(63, 'a') + "0");
  EXPECT_EQ(read->models[0].bytes, 4'683'073'952U);
  EXPECT_TRUE(read->own_template);
  EXPECT_TRUE(read->projector);
  EXPECT_FALSE(read->adapter);
  EXPECT_TRUE(read_ollama_manifest(manifest(layer("adapter", kDigest)))->adapter);
  EXPECT_EQ(read_ollama_manifest(manifest(layer("tensor", kDigest) + "," + layer("tensor", kDigest)))
                ->single_tensors,
            2U);
  EXPECT_TRUE(read_ollama_manifest(R"({"layers": null})")->models.empty()) << "a model of another server's";
}

TEST(OllamaManifest, RefusesTextThatIsNoManifest) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(R"({"layers": 3})"), manifest("3"), manifest("{}"), manifest(R"({"mediaType": 3})"),
        R"({"layers": )" + std::string(1000, '[') + std::string(1000, ']') + "}"})
    EXPECT_FALSE(read_ollama_manifest(text)) << text.substr(0, 80);
}

TEST(OllamaManifest, TakesNoDigestThatCouldNameAnotherFile) {
  for (const std::string& digest :
       {std::string("sha256:../../../../etc/passwd"), std::string("sha256:"), std::string(),
        "sha512:" + std::string(64, 'a'), "sha256:" + std::string(63, 'a'), "sha256:" + std::string(65, 'a'),
        "sha256:" + std::string(64, 'A'), "sha256:" + std::string(63, 'a') + "/"}) {
    const auto read = read_ollama_manifest(manifest(layer("model", digest)));
    ASSERT_FALSE(read) << digest;
    EXPECT_EQ(read.error().message, "its manifest has a digest that is no SHA-256");
  }
  for (const char* const size : {"-1", "1.5", "\"7\"", "null"})
    EXPECT_FALSE(read_ollama_manifest(manifest(layer("model", kDigest, size)))) << size;
}

TEST(OllamaManifest, ModelsAreCalledAsOllamaCallsThem) {
  EXPECT_EQ(ollama_name("registry.ollama.ai", "library", "qwen3", "8b"), "qwen3:8b");
  EXPECT_EQ(ollama_name("registry.ollama.ai", "me", "qwen3", "latest"), "me/qwen3:latest");
  EXPECT_EQ(ollama_name("hf.co", "bartowski", "Llama-GGUF", "Q4_K_M"), "hf.co/bartowski/Llama-GGUF:Q4_K_M");
  EXPECT_EQ(ollama_name("other.host", "library", "a", "b"), "other.host/library/a:b");
}

}  // namespace
}  // namespace flyball::discover
