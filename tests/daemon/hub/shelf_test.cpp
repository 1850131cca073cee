#include "daemon/hub/shelf.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/harness/temp_dir.hpp"

namespace flyball::hub {
namespace {

namespace fs = std::filesystem;

void make(const fs::path& file, const std::string& text = "x") {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(HubShelf, ModelsShardsDirectoriesAndPartsAreFound) {
  const test::TempDir dir;
  const fs::path root = dir.path() / "models";
  EXPECT_TRUE(stored_models(root)->empty());
  make(root / "o/r/b-00001-of-00002.gguf", "12345");
  make(root / "o/r/b-00002-of-00002.gguf", "123");
  make(root / "o/r/a.gguf.part", "12");
  make(root / "o/r/a.gguf.part.json", R"({"url": "https://h/a.gguf", "size": 40})");
  make(root / "o/r/a.gguf.sha256");
  make(root / "o/mlx/config.json");
  make(root / "o/mlx/model.safetensors");
  make(root / "o/half.part/config.json");
  make(root / "o/half.part.json", R"({"url": "https://h", "size": 90})");
  make(root / "o/mine.part/notes.txt");  // nobody gathers it
  make(dir.path() / "outside/c.gguf");
  fs::create_directory_symlink(dir.path() / "outside", root / "link");
  const auto stored = stored_models(root);
  ASSERT_TRUE(stored.has_value());
  ASSERT_EQ(stored->size(), 4U);
  EXPECT_EQ((*stored)[0].file, root / "o/half.part");
  EXPECT_TRUE((*stored)[0].part);
  EXPECT_EQ((*stored)[0].expected, 90U);
  EXPECT_EQ((*stored)[1].file, root / "o/mlx");
  EXPECT_FALSE((*stored)[1].part);
  EXPECT_EQ((*stored)[2].file, root / "o/r/a.gguf.part");
  EXPECT_EQ((*stored)[2].bytes, 2U);
  EXPECT_EQ((*stored)[2].expected, 40U);
  EXPECT_EQ((*stored)[3].file, root / "o/r/b-00001-of-00002.gguf");
  EXPECT_EQ((*stored)[3].bytes, 8U);
  EXPECT_EQ((*stored)[3].files.size(), 2U);
}

TEST(HubShelf, RemovingStaysInTheFolder) {
  const test::TempDir dir;
  const fs::path root = dir.path() / "models";
  make(root / "o/r/a.gguf");
  make(root / "o/mlx/config.json");
  make(root / "o/mlx/inner/file");
  make(dir.path() / "outside/c.gguf");
  fs::create_directory_symlink(dir.path() / "outside", root / "link");
  EXPECT_FALSE(remove_below(root, "link/c.gguf").has_value());
  EXPECT_FALSE(remove_below(root, "../outside/c.gguf").has_value());
  EXPECT_FALSE(remove_below(root, "o/../../outside/c.gguf").has_value());
  EXPECT_FALSE(remove_below(root, "").has_value());
  EXPECT_TRUE(fs::exists(dir.path() / "outside/c.gguf"));
  EXPECT_FALSE(remove_below(root, "o/mlx").has_value()) << "a folder of folders is no model";
  EXPECT_TRUE(fs::exists(root / "o/mlx/inner/file"));
  EXPECT_TRUE(remove_below(root, "o/none.gguf").has_value());
  EXPECT_TRUE(remove_below(root, "none/at/all").has_value());
  ASSERT_TRUE(remove_below(root, "o/r/a.gguf").has_value());
  EXPECT_FALSE(fs::exists(root / "o/r")) << "it is empty";
  EXPECT_TRUE(fs::exists(root / "o"));
  ASSERT_TRUE(remove_below(root, "link").has_value());
  EXPECT_TRUE(fs::exists(dir.path() / "outside/c.gguf"));
}

TEST(HubShelf, APathIsBelowTheFolderByWhereItTrulyLies) {
  const test::TempDir dir;
  const fs::path root = dir.path() / "models";
  make(root / "o/a.gguf");
  make(dir.path() / "outside/c.gguf");
  fs::create_directory_symlink(root, dir.path() / "alias");
  fs::create_directory_symlink(dir.path() / "outside", root / "link");
  EXPECT_EQ(below(root, root / "o/a.gguf"), "o/a.gguf");
  EXPECT_EQ(below(dir.path() / "alias", root / "o/a.gguf"), "o/a.gguf");
  EXPECT_EQ(below(root, dir.path() / "alias/o/a.gguf"), "o/a.gguf");
  EXPECT_EQ(below(root, root / "link/c.gguf"), "");
  EXPECT_EQ(below(root, root / "../outside/c.gguf"), "");
  EXPECT_EQ(below(root, dir.path() / "outside/c.gguf"), "");
}

TEST(HubShelf, UsersAreThoseWhoseModelHasOneOfTheFiles) {
  const test::TempDir dir;
  make(dir.path() / "b-00001-of-00002.gguf");
  make(dir.path() / "b-00002-of-00002.gguf");
  config::Config config;
  config.models.resize(3);
  config.models[0].id = "demo";
  config.models[0].embedded = true;
  config.models[1].id = "split";
  config.models[1].path = dir.path() / "b-00001-of-00002.gguf";
  config.models[2].id = "other";
  config.models[2].path = dir.path() / "c.gguf";
  using Ids = std::vector<std::string>;
  EXPECT_EQ(users_of(config, {dir.path() / "b-00002-of-00002.gguf"}), Ids{"split"});
  EXPECT_EQ(users_of(config, {dir.path() / "x/../c.gguf"}), Ids{"other"});
  EXPECT_EQ(users_of(config, {dir.path() / "d.gguf"}), Ids{});
}

}  // namespace
}  // namespace flyball::hub
