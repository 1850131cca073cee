#include "daemon/hub/choice.hpp"

#include <gtest/gtest.h>

namespace flyball::hub {
namespace {

const Url kHub = *parse_url("https://huggingface.co");

std::vector<RepoFile> repo(const std::vector<std::string>& paths) {
  std::vector<RepoFile> out;
  for (const std::string& path : paths) out.push_back({path, 1000, std::string(64, 'a'), {}});
  return out;
}

// The names of the files that are chosen, or the refusal.
std::string chosen(const std::vector<std::string>& paths, const HubName& wanted) {
  const auto choice = choose(repo(paths), wanted);
  if (!choice) return choice.error().message;
  std::string out;
  for (const RepoFile& file : choice->files) out += (out.empty() ? "" : " ") + file.path;
  return out;
}

TEST(HubChoice, NamesAndAddressesOfAHubMeanTheSame) {
  for (const auto& [words, expected] : std::vector<std::pair<std::string, HubName>>{
           {"org/repo", {.repo = "org/repo"}},
           {"org/repo:Q4_K_M", {.repo = "org/repo", .quant = "Q4_K_M"}},
           {"hf.co/org/repo:q8_0", {.repo = "org/repo", .quant = "q8_0"}},
           {"huggingface.co/org/repo", {.repo = "org/repo"}},
           {"org/repo/a/f.gguf", {.repo = "org/repo", .file = "a/f.gguf"}},
           {"https://huggingface.co/org/repo", {.repo = "org/repo"}},
           {"https://huggingface.co/org/repo/", {.repo = "org/repo"}},
           {"org/repo:latest", {.repo = "org/repo"}},
           {"https://huggingface.co/org/repo/blob/refs%2Fpr%2F1/f.gguf",
            {.repo = "org/repo", .revision = "refs/pr/1", .file = "f.gguf"}},
           {"https://hf.co/org/repo/tree/v2", {.repo = "org/repo", .revision = "v2"}},
           {"https://huggingface.co/org/repo/resolve/main/f.gguf?download=true",
            {.repo = "org/repo", .file = "f.gguf"}},
           {"https://huggingface.co/org/repo/blob/abc/a%20b/f.gguf",
            {.repo = "org/repo", .revision = "abc", .file = "a b/f.gguf"}}}) {
    const auto name = read_name(words, kHub);
    ASSERT_TRUE(name.has_value()) << words;
    ASSERT_TRUE(std::holds_alternative<HubName>(*name)) << words;
    EXPECT_EQ(std::get<HubName>(*name), expected) << words;
  }
}

TEST(HubChoice, AnotherServersAddressIsAFile) {
  for (const std::string words :
       {"https://example.org/a/f.gguf", "http://127.0.0.1:1/org/repo/resolve/main/f.gguf"}) {
    const auto name = read_name(words, kHub);
    ASSERT_TRUE(name.has_value()) << words;
    EXPECT_TRUE(std::holds_alternative<Url>(*name)) << words;
  }
  const Url mirror = *parse_url("http://mirror.example/hf");
  const auto inside = read_name("http://mirror.example/hf/org/repo/resolve/main/f.gguf", mirror);
  ASSERT_TRUE(inside && std::holds_alternative<HubName>(*inside));
  EXPECT_EQ(std::get<HubName>(*inside).repo, "org/repo");
  const auto outside = read_name("http://mirror.example/files/f.gguf", mirror);
  EXPECT_TRUE(outside && std::holds_alternative<Url>(*outside));
}

TEST(HubChoice, WordsThatNameNoModelAreRefused) {
  for (const std::string words :
       {"", "repo", "org/", "/org/repo", "org/repo:", "org/../repo", "org/repo/f.bin", "org/repo/f.gguf:Q8_0",
        "org/repo/f.gguf:latest", "org/repo.part", "https://hf.co/org%2Fa/repo",
        "https://hf.co/org/repo/blob/%2e%2e/f.gguf", "https://hf.co/org/repo/blob/main/..%2f..%2ff.gguf",
        "ftp://h/f.gguf", "org/re\npo"})
    EXPECT_FALSE(read_name(words, kHub).has_value()) << words;
}

TEST(HubChoice, TheQuantizationIsTheLastWordThatIsOne) {
  for (const auto& [file, quant] :
       std::vector<std::pair<std::string, std::string>>{{"Qwen3-0.6B-Q8_0.gguf", "Q8_0"},
                                                        {"a/model.q4_k_m.gguf", "q4_k_m"},
                                                        {"m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
                                                        {"m-IQ3_XXS.gguf", "IQ3_XXS"},
                                                        {"gpt-oss-20b-mxfp4.gguf", "mxfp4"},
                                                        {"m-BF16-00001-of-00002.gguf", "BF16"},
                                                        {"phi-4k-instruct-q4.gguf", "q4"},
                                                        {"Qwen3-8B.gguf", ""},
                                                        {"model_q8_0.gguf", "q8_0"},
                                                        {"my_model_Q4_K_M.gguf", "Q4_K_M"},
                                                        {"Q8_0/s.gguf", "Q8_0"},
                                                        {"UD-Q4_K_XL/s-00001-of-00002.gguf", "UD-Q4_K_XL"},
                                                        {"Q8_0/s-F16.gguf", "F16"},
                                                        {"F16-story-Q4_0.gguf", "Q4_0"},
                                                        {".gguf", ""}})
    EXPECT_EQ(quant_of(file), quant) << file;
}

TEST(HubChoice, WithoutAWishTheUsualQuantizationIsTaken) {
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q2_K.gguf", "mmproj-m-Q4_K_M.gguf"}, {"o/r"}),
            "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q2_K.gguf", "m-F16.gguf"}, {"o/r"}), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-UD-Q4_K_M.gguf", "m-Q4_K_M.gguf"}, {"o/r"}), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen({"m-IQ4_XS.gguf", "m-Q3_K_M.gguf", "m-BF16.gguf"}, {"o/r"}), "m-IQ4_XS.gguf");
  EXPECT_EQ(chosen({"m-UD-Q2_K_XL.gguf", "m-UD-Q3_K_XL.gguf"}, {"o/r"}), "m-UD-Q3_K_XL.gguf");
  for (const char* small : {"IQ4_NL", "MXFP4", "MXFP4_MOE", "Q3_K_M", "Q3_K_L", "Q3_K_S", "Q3_K"}) {
    const std::string file = "m-" + std::string(small) + ".gguf";
    EXPECT_EQ(chosen({"m-IQ1_S.gguf", "m-BF16.gguf", "m-F32.gguf", file}, {"o/r"}), file);
  }
  EXPECT_EQ(chosen({"m-IQ2_M.gguf", "readme.md"}, {"o/r"}), "m-IQ2_M.gguf");
  EXPECT_NE(chosen({"m-IQ2_M.gguf", "m-Q2_K.gguf"}, {"o/r"}).find("IQ2_M (1000 bytes), Q2_K (1000 bytes)"),
            std::string::npos);
}

TEST(HubChoice, AWishIsTakenWhateverItsCase) {
  const std::vector<std::string> paths{"m-Q8_0.gguf", "m-q5_k_m.gguf", "m-UD-Q4_K_XL.gguf", "m-Q3_K_M.gguf",
                                       "m-IQ1_S.gguf"};
  EXPECT_EQ(chosen(paths, {.repo = "o/r", .quant = "Q5_K_M"}), "m-q5_k_m.gguf");
  EXPECT_EQ(chosen(paths, {.repo = "o/r", .quant = "q4_k_xl"}), "m-UD-Q4_K_XL.gguf");
  EXPECT_NE(chosen(paths, {.repo = "o/r", .quant = "Q4_0"}).find("has no quantization"), std::string::npos);
  EXPECT_NE(chosen(paths, {.repo = "o/r", .quant = "q5_k_n"}).find("Q5_K_M\"?"), std::string::npos);
  EXPECT_NE(chosen(paths, {.repo = "o/r", .file = "m-Q3_K_N.gguf"}).find("m-Q3_K_M.gguf\"?"),
            std::string::npos);
  EXPECT_EQ(chosen(paths, {.repo = "o/r", .quant = "q3_k_m"}), "m-Q3_K_M.gguf");
  EXPECT_NE(chosen(paths, {.repo = "o/r", .quant = "iq1_s"}).find("this build reads no"), std::string::npos);
  EXPECT_EQ(chosen(paths, {.repo = "o/r", .file = "m-IQ1_S.gguf"}), "m-IQ1_S.gguf");
  EXPECT_NE(chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, {.repo = "o/r"}).find("name one of these files"),
            std::string::npos);
}

TEST(HubChoice, ShardsComeTogetherInOrder) {
  const std::string both = "Q8_0/m-Q8_0-00001-of-00002.gguf Q8_0/m-Q8_0-00002-of-00002.gguf";
  const std::vector<std::string> paths{"Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf",
                                       "m-Q5_0.gguf"};
  EXPECT_EQ(chosen(paths, {.repo = "o/r", .quant = "Q8_0"}), both);
  EXPECT_EQ(chosen(paths, {.repo = "o/r", .file = "Q8_0/m-Q8_0-00002-of-00002.gguf"}), both);
  EXPECT_EQ(choose(repo(paths), {.repo = "o/r", .quant = "Q8_0"})->name, "m-Q8_0");
  EXPECT_NE(chosen({"m-Q8_0-00001-of-00002.gguf"}, {.repo = "o/r"}).find("1 of the 2 shards"),
            std::string::npos);
}

TEST(HubChoice, ARepositoryOfSafetensorsIsADirectory) {
  const std::vector<std::string> paths{"README.md",           ".gitattributes",
                                       "config.json",         "model-00001-of-00002.safetensors",
                                       "merges.txt",          "tokenizer.json",
                                       "onnx/config.json",    "pic.png",
                                       "chat_template.jinja", "model-00002-of-00002.safetensors"};
  const auto choice = choose(repo(paths), {.repo = "o/r"});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->kind, Choice::Kind::mlx);
  EXPECT_EQ(choice->name, "r");
  EXPECT_EQ(chosen(paths, {.repo = "o/r"}),
            "config.json model-00001-of-00002.safetensors merges.txt tokenizer.json chat_template.jinja "
            "model-00002-of-00002.safetensors");
  EXPECT_NE(chosen({"config.json"}, {.repo = "o/r"}).find("holds no model"), std::string::npos);
  EXPECT_NE(chosen({}, {.repo = "o/r"}).find("holds no model"), std::string::npos);
}

}  // namespace
}  // namespace flyball::hub
