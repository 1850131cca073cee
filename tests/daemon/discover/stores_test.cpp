// Stores of every kind as other tools lay them out, with what is broken in them.
#include "daemon/discover/stores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/daemon/discover/folder.hpp"

namespace flyball::discover {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> names(const StoreContents& contents) {
  std::vector<std::string> out;
  for (const FoundModel& model : contents.models) out.push_back(model.name);
  return out;
}
// "unfinished NAME", of an obstacle without a name its file's.
std::vector<std::string> obstacles(const StoreContents& contents) {
  std::vector<std::string> out;
  for (const Obstacle& one : contents.obstacles)
    out.push_back(std::string(to_string(one.kind)) + " " +
                  (one.name.empty() ? one.path.filename().string() : one.name));
  return out;
}

class OllamaStore : public testing::Test {
 protected:
  std::string digest(char c) const { return std::string(64, c); }
  void manifest(const std::string& name, const std::string& text) const {
    folder_.write("manifests/" + name, text);
  }
  void model(const std::string& name, char blob, std::uint64_t bytes, const std::string& more = "") const {
    manifest(name, R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" +
                       digest(blob) + R"(", "size": )" + std::to_string(bytes) + "}" + more + "]}");
  }
  StoreContents look() const { return look_through({StoreKind::ollama, folder_.root()}); }
  Folder folder_;
};

TEST_F(OllamaStore, HasTheModelsOfItsManifests) {
  const auto blob = folder_.write("blobs/sha256-" + digest('a'), "12345");
  folder_.write("blobs/sha256:" + digest('b'), "123");
  model("registry.ollama.ai/library/qwen3/latest", 'a', 5);
  model("registry.ollama.ai/library/qwen3/8b", 'a', 5,
        R"(, {"mediaType": "application/vnd.ollama.image.projector", "digest": "sha256:)" + digest('c') +
            R"(", "size": 1})");
  model("hf.co/me/GGUF/Q8_0", 'b', 3);
  folder_.write("manifests/.DS_Store");
  const StoreContents contents = look();
  EXPECT_THAT(names(contents), ElementsAre("hf.co/me/GGUF:Q8_0", "qwen3:8b", "qwen3:latest"));
  EXPECT_EQ(contents.models[0].path, folder_.root() / ("blobs/sha256:" + digest('b')))
      << "as older stores write it";
  EXPECT_EQ(contents.models[1].path, blob);
  EXPECT_EQ(contents.models[1].bytes, 5U);
  EXPECT_EQ(contents.models[1].notes.size(), 1U) << "its projector";
  EXPECT_EQ(contents.models[2].stem, "qwen3") << "clients may leave the default tag out";
  EXPECT_THAT(obstacles(contents), IsEmpty());
}

TEST_F(OllamaStore, SaysWhatIsWrongWithAModelAndHowToMendIt) {
  folder_.write("blobs/sha256-" + digest('a'), "12345");
  model("registry.ollama.ai/library/lies/1b", 'a', 4);
  model("registry.ollama.ai/library/gone/1b", 'b', 4);
  model("registry.ollama.ai/library/half/1b", 'c', 4);
  folder_.write("blobs/sha256-" + digest('c') + "-partial", "1");
  model("registry.ollama.ai/library/link/1b", 'd', 4);
  folder_.link("blobs/sha256-" + digest('d'), "/nothing");
  model("registry.ollama.ai/library/pipe/1b", 'e', 0);
  ::mkfifo((folder_.root() / ("blobs/sha256-" + digest('e'))).c_str(), 0600);
  manifest("registry.ollama.ai/library/cloud/latest", R"({"layers": null})");
  manifest("registry.ollama.ai/library/out/latest",
           R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "size": 1, )"
           R"("digest": "sha256:../../x"}]})");
  manifest("registry.ollama.ai/library/large/latest", std::string(2 << 20, ' '));
  model("registry.ollama.ai/library/lora/1b", 'a', 5,
        R"(, {"mediaType": "application/vnd.ollama.image.adapter", "digest": "sha256:)" + digest('c') +
            R"(", "size": 1})");
  model("registry.ollama.ai/library/bad;name/1b", 'b', 4);
  const StoreContents contents = look();
  EXPECT_THAT(names(contents), IsEmpty());
  EXPECT_THAT(
      obstacles(contents),
      UnorderedElementsAre("damaged lies:1b", "damaged gone:1b", "unfinished half:1b", "dangling link:1b",
                           "damaged pipe:1b", "unsupported cloud:latest", "damaged out:latest",
                           "damaged large:latest", "unsupported lora:1b", "damaged bad;name:1b"));
  for (const Obstacle& one : contents.obstacles) {
    if (one.name == "gone:1b") {
      EXPECT_EQ(one.remedy, "ollama pull gone:1b");
    }
    if (one.name == "bad;name:1b") {
      EXPECT_EQ(one.remedy, "") << "no command for a shell from such a name";
    }
  }
}

TEST_F(OllamaStore, HasDownloadsWhoseManifestIsNotWrittenYet) {
  folder_.write("blobs/sha256-" + digest('a') + "-partial");
  folder_.write("blobs/sha256-" + digest('a') + "-partial-0");
  folder_.write("blobs/sha256-" + digest('b'));
  model("registry.ollama.ai/library/half/1b", 'c', 4);
  folder_.write("blobs/sha256-" + digest('c') + "-partial");
  EXPECT_THAT(obstacles(look()),
              UnorderedElementsAre("unfinished sha256-" + digest('a') + "-partial", "unfinished half:1b"));
}

TEST(FolderStore, HasFilesShardsAndDirectories) {
  const Folder folder;
  folder.write("org/repo/a.Q4_K_M.gguf", "1234");
  folder.write("org/repo/mmproj-a.gguf");
  folder.write("org/repo/UPPER.GGUF", "12");
  for (const char* const n : {"1", "2", "3"})
    folder.write("big-0000" + std::string(n) + "-of-00003.gguf", "12");
  folder.write("mlx/config.json", "{}");
  folder.write("mlx/model-00001-of-00002.safetensors", "123");
  folder.write("mlx/model-00002-of-00002.safetensors", "123");
  folder.write("lora/adapter.safetensors");
  folder.write("web/config.json", "{}");
  folder.write("notes.txt");
  const StoreContents contents = look_through({StoreKind::folder, folder.root()});
  EXPECT_THAT(names(contents), ElementsAre("big", "mlx", "org/repo/UPPER.GGUF", "org/repo/a.Q4_K_M.gguf"));
  EXPECT_EQ(contents.models[0].bytes, 6U);
  EXPECT_EQ(contents.models[0].path, folder.root() / "big-00001-of-00003.gguf");
  EXPECT_THAT(contents.models[0].notes, ElementsAre("3 shards"));
  EXPECT_EQ(contents.models[1].path, folder.root() / "mlx");
  EXPECT_EQ(contents.models[1].bytes, 6U);
  EXPECT_EQ(contents.models[3].stem, "a.Q4_K_M");
  EXPECT_THAT(obstacles(contents), IsEmpty());
}

TEST(FolderStore, AFileIsNoModelWhileADownloaderKeepsNotesBesideIt) {
  const Folder folder;
  folder.write("m.gguf", "full size");
  folder.write("m.gguf.aria2");
  const StoreContents contents = look_through({StoreKind::folder, folder.root()});
  EXPECT_THAT(names(contents), IsEmpty());
  EXPECT_THAT(obstacles(contents), ElementsAre("unfinished m.gguf.aria2"));
}

TEST(FolderStore, ADirectoryThatLacksShardsIsUnfinished) {
  const Folder folder;
  folder.write("mlx/config.json", "{}");
  folder.write("mlx/model-00001-of-00003.safetensors");
  folder.write("mlx/model-00003-of-00003.safetensors");
  const StoreContents contents = look_through({StoreKind::folder, folder.root()});
  EXPECT_THAT(names(contents), IsEmpty());
  ASSERT_THAT(obstacles(contents), ElementsAre("unfinished mlx"));
  EXPECT_EQ(contents.obstacles[0].what, "has 2 of 3 safetensors files; missing: 2");
}

TEST(FolderStore, SplitsOfOneStemAndTwoCountsAreTwoModels) {
  const Folder folder;
  for (const char* const name :
       {"q-00001-of-00002.gguf", "q-00002-of-00002.gguf", "q-00001-of-00003.gguf", "q-00003-of-00003.gguf"})
    folder.write(name, "12");
  const StoreContents contents = look_through({StoreKind::folder, folder.root()});
  ASSERT_THAT(names(contents), ElementsAre("q"));
  EXPECT_EQ(contents.models[0].bytes, 4U);
  EXPECT_THAT(obstacles(contents), ElementsAre("unfinished q"));
}

TEST(FolderStore, AMergedFileMayKeepTheNameOfItsFirstShard) {
  const Folder folder;
  folder.write("big-00001-of-01024.gguf", "12");
  const StoreContents contents = look_through({StoreKind::folder, folder.root()});
  ASSERT_THAT(names(contents), ElementsAre("big"));
  EXPECT_THAT(contents.models[0].notes, IsEmpty());
}

TEST(FolderStore, NamesDownloadsThatHaveNotEndedAndLinksToNothing) {
  const Folder folder;
  folder.write("a.gguf.part");
  folder.write("downloading_b.gguf.Part");
  folder.write("c.gguf.downloadInProgress");
  folder.write("half-00001-of-00003.gguf");
  folder.write("half-00003-of-00003.gguf");
  folder.link("away.gguf", "/mnt/absent/away.gguf");
  folder.write("mlx/config.json", "{}");
  folder.write("mlx/model-1.safetensors");
  folder.write("mlx/model-2.safetensors.incomplete");
  folder.link("lost/model.safetensors", "nowhere");
  folder.write("lost/config.json", "{}");
  std::filesystem::create_directory(folder.root() / "folder.gguf");
  ::mkfifo((folder.root() / "pipe.gguf").c_str(), 0600);
  const StoreContents contents = look_through({StoreKind::folder, folder.root()});
  EXPECT_THAT(names(contents), IsEmpty());
  EXPECT_THAT(obstacles(contents),
              UnorderedElementsAre("unfinished a.gguf.part", "unfinished downloading_b.gguf.Part",
                                   "unfinished c.gguf.downloadInProgress", "unfinished half",
                                   "dangling away.gguf", "unfinished mlx/model-2.safetensors.incomplete",
                                   "dangling lost/model.safetensors"));
}

TEST(HuggingFaceCache, HasTheFilesOfItsSnapshots) {
  const Folder folder;
  const std::string repo = "models--Qwen--Qwen3-0.6B-GGUF";
  folder.write(repo + "/blobs/abc", "12345");
  folder.write(repo + "/blobs/def.incomplete");
  folder.write(repo + "/refs/main", "1111");
  folder.link(repo + "/snapshots/1111/q8.gguf", "../../blobs/abc");
  folder.link(repo + "/snapshots/1111/gone.gguf", "../../blobs/none");
  folder.link(repo + "/snapshots/1111/sub/q4.gguf", "../../../blobs/abc");
  folder.write("models--mlx-community--Small-4bit/snapshots/2222/config.json", "{}");
  folder.write("models--mlx-community--Small-4bit/snapshots/2222/model.safetensors", "123");
  folder.write("datasets--a--b/snapshots/1/x.gguf");
  folder.write("version.txt", "1");
  const StoreContents contents = look_through({StoreKind::hugging_face, folder.root()});
  EXPECT_THAT(names(contents), ElementsAre("Qwen/Qwen3-0.6B-GGUF/q8.gguf", "Qwen/Qwen3-0.6B-GGUF/sub/q4.gguf",
                                           "mlx-community/Small-4bit"));
  EXPECT_EQ(contents.models[0].bytes, 5U);
  EXPECT_EQ(contents.models[0].path, folder.root() / (repo + "/snapshots/1111/q8.gguf"));
  EXPECT_EQ(contents.models[2].stem, "Small-4bit");
  EXPECT_THAT(obstacles(contents), UnorderedElementsAre("unfinished Qwen/Qwen3-0.6B-GGUF",
                                                        "dangling Qwen/Qwen3-0.6B-GGUF/gone.gguf"));
}

TEST(Stores, AWalkThatEndsAtALimitIsSaid) {
  const Folder folder;
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i) + ".gguf");
  const StoreContents contents = look_through({StoreKind::folder, folder.root()}, {.wanted = 3});
  EXPECT_THAT(obstacles(contents), ElementsAre("cut " + folder.root().filename().string()));
  EXPECT_EQ(contents.obstacles[0].what, "has more than 3 model files: the rest was not looked at");
}

TEST(Stores, ANamedFolderIsTheStoreThatItsLayoutShows) {
  const Folder folder;
  folder.write("ollama/manifests/x");
  folder.write("ollama/blobs/x");
  folder.write("cache/models--org--name/refs/main");
  folder.write("mine/a.gguf");
  const auto kind = [&](const std::string& name) { return place_of(folder.root() / name).kind; };
  EXPECT_EQ(kind("ollama"), StoreKind::ollama);
  EXPECT_EQ(kind("cache"), StoreKind::hugging_face);
  EXPECT_EQ(kind("mine"), StoreKind::folder);
  EXPECT_EQ(place_of(folder.root() / "mine/").root, folder.root() / "mine")
      << "a slash at the end changes nothing";
  folder.write("mlx/config.json", "{}");
  folder.write("mlx/model.safetensors", "1");
  EXPECT_THAT(names(look_through(place_of(folder.root() / "mlx/"))), ElementsAre("mlx"));
}

}  // namespace
}  // namespace flyball::discover
