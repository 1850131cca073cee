#include "daemon/discover/places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "tests/daemon/discover/folder.hpp"

namespace flyball::discover {
namespace {

class Places : public testing::Test {
 protected:
  Places() {
    for (const char* const name : kNames) ::unsetenv(name);
  }
  ~Places() override {
    for (const char* const name : kNames) ::unsetenv(name);
  }
  static bool has(const std::vector<StorePlace>& places, StoreKind kind, const std::filesystem::path& root) {
    return std::ranges::find(places, StorePlace{kind, root}) != places.end();
  }
  static constexpr const char* kNames[] = {"OLLAMA_MODELS", "HF_HUB_CACHE", "HF_HOME", "LLAMA_CACHE",
                                           "XDG_CACHE_HOME"};
};

TEST_F(Places, AreThoseOfEveryHome) {
  const std::vector<std::filesystem::path> homes{"/home/me", "/usr/share/ollama"};
  const auto places = known_places(homes);
  EXPECT_TRUE(has(places, StoreKind::ollama, "/home/me/.ollama/models"));
  EXPECT_TRUE(has(places, StoreKind::ollama, "/usr/share/ollama/.ollama/models"));
  EXPECT_TRUE(has(places, StoreKind::lm_studio, "/home/me/.lmstudio/models"));
  EXPECT_TRUE(has(places, StoreKind::lm_studio, "/home/me/.cache/lm-studio/models"));
  EXPECT_TRUE(has(places, StoreKind::hugging_face, "/home/me/.cache/huggingface/hub"));
  EXPECT_TRUE(has(places, StoreKind::folder, "/home/me/.cache/llama.cpp"));
}

TEST_F(Places, AreWhereTheEnvironmentPutsThem) {
  const std::vector<std::filesystem::path> homes{"/home/me"};
  ::setenv("OLLAMA_MODELS", "/data/ollama/", 1);
  ::setenv("HF_HOME", "~/hf", 1);
  ::setenv("HF_HUB_CACHE", "relative", 1);
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  const auto places = known_places(homes);
  EXPECT_TRUE(has(places, StoreKind::ollama, "/data/ollama"));
  EXPECT_TRUE(has(places, StoreKind::hugging_face, "/home/me/hf/hub"));
  EXPECT_TRUE(has(places, StoreKind::hugging_face, "/cache/huggingface/hub"));
  EXPECT_TRUE(has(places, StoreKind::folder, "/cache/llama.cpp"));
  EXPECT_TRUE(std::ranges::none_of(places, [](const StorePlace& place) { return place.root.is_relative(); }));
}

TEST_F(Places, OfLmStudioFollowItsPointerAndItsSettings) {
  const Folder home;
  home.write(".lmstudio-home-pointer", (home.root() / "moved").string() + "\n");
  home.write("moved/settings.json", R"({"downloadsFolder": "/mnt/models"})");
  home.write(".lmstudio/settings.json", R"({"downloadsFolder": 3})");
  const std::vector<std::filesystem::path> homes{home.root()};
  const auto places = known_places(homes);
  EXPECT_TRUE(has(places, StoreKind::lm_studio, "/mnt/models"));
  EXPECT_TRUE(has(places, StoreKind::lm_studio, home.root() / "moved/models"));
  EXPECT_TRUE(has(places, StoreKind::lm_studio, home.root() / ".lmstudio/models"));
}

TEST_F(Places, OfOllamaAreReadOutOfItsUnit) {
  EXPECT_EQ(ollama_models_in("[Service]\nEnvironment=\"OLLAMA_MODELS=/mnt/a b\"\n"), "/mnt/a b");
  EXPECT_EQ(ollama_models_in("Environment=OLLAMA_HOST=0.0.0.0 OLLAMA_MODELS=/mnt/a OTHER=1"), "/mnt/a");
  EXPECT_EQ(ollama_models_in("Environment='OLLAMA_MODELS=/1'\nEnvironment='OLLAMA_MODELS=/2'"), "/2");
  for (const char* const text : {"", "# Environment=OLLAMA_MODELS=/a", "Environment=OLLAMA_MODELS=",
                                 "Environment=OLLAMA_MODELS", "Environment=OLLAMA_MODELS=relative"})
    EXPECT_FALSE(ollama_models_in(text)) << text;
  for (const char* const text :
       {"", "[]", "{}", R"({"downloadsFolder": "relative"})", R"({"downloadsFolder": null})"})
    EXPECT_FALSE(downloads_folder_in(text)) << text;
}

}  // namespace
}  // namespace flyball::discover
