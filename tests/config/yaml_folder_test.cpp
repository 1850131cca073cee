// Which files of a folder are read, and which are named because they look as if they were meant to be.
#include "config/yaml_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/harness/temp_dir.hpp"

namespace flyball::config {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names(const std::vector<fs::path>& paths) {
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(path.filename().string());
  return out;
}

TEST(YamlFolder, EverySpellingOfTheExtensionIsRead) {
  const test::TempDir dir;
  for (const char* name : {"b.yml", "a.yaml", "d.YML", "c.YAML", ".hidden.yaml", ".#e.yaml", "yaml"})
    std::ofstream(dir.path() / name) << "x";
  const auto folder = read_yaml_folder(dir.path());
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_THAT(names(folder->files), testing::ElementsAre("a.yaml", "b.yml", "c.YAML", "d.YML"));
  EXPECT_THAT(folder->ignored, testing::IsEmpty());
}

TEST(YamlFolder, WhatLooksMeantIsNamedAndWhatIsForPeopleIsNot) {
  const test::TempDir dir;
  for (const char* name : {"a.yaml.bak", "a.yaml~", "a.yml.dpkg-old", "b.json", "c.toml", "README",
                           "README.md", "app.key", "notes.txt", ".a.yaml.swp"})
    std::ofstream(dir.path() / name) << "x";
  fs::create_directory(dir.path() / "team");
  const auto folder = read_yaml_folder(dir.path());
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_THAT(folder->files, testing::IsEmpty());
  EXPECT_THAT(names(folder->ignored),
              testing::ElementsAre("a.yaml.bak", "a.yaml~", "a.yml.dpkg-old", "b.json", "c.toml", "team"));
}

TEST(YamlFolder, OneThatCannotBeReadIsAnError) {
  const test::TempDir dir;
  const auto folder = read_yaml_folder(dir.path() / "nothing");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::config_invalid);
  EXPECT_EQ(folder.error().where, (dir.path() / "nothing").string());
}

}  // namespace
}  // namespace flyball::config
