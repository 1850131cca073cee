// Models that commands add to the operator's configuration.
#include "daemon/cli/model_entry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "config/app_manifest.hpp"
#include "daemon/cli/machine_pools.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::cli {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class ModelEntry : public testing::Test {
 protected:
  fs::path config() const { return folder_ / "config.yaml"; }
  Result<WrittenModels> write(std::vector<NewModel> models) const { return write_models(config(), models); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(fs::recursive_directory_iterator(folder_),
                              [](const fs::directory_entry& entry) { return !entry.is_directory(); }));
  }
  test::TempDir dir_;
  fs::path folder_ = dir_.path();
};

TEST_F(ModelEntry, ModelsBecomeFilesThatTheConfigurationReads) {
  const auto written = write({{.id = "qwen3:8b", .path = "/models/it's a file.gguf", .longest = 40960},
                              {.id = "true", .path = "/b", .sha256 = std::string(64, 'a')}});
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_TRUE(written->made_config);
  EXPECT_EQ(written->default_model, "qwen3:8b") << "the demo model was the default";
  EXPECT_EQ(written->files[0], folder_ / "config.d/model-qwen3-8b.yaml");
  const auto read = config::load_config(config());
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->models.size(), 3U) << "the demo model stays";
  EXPECT_EQ(read->models[1].id, "qwen3:8b");
  EXPECT_EQ(read->models[1].path, "/models/it's a file.gguf");
  EXPECT_EQ(read->models[2].id, "true");
  EXPECT_EQ(read->models[2].sha256, std::string(64, 'a'));
  EXPECT_EQ(read->default_model, "qwen3:8b");
  EXPECT_EQ(config::apps_of(*read)->front().id, "example") << "the default app has its manifest";
}

TEST_F(ModelEntry, AModelOfOnesOwnStaysTheDefault) {
  ASSERT_TRUE(write({{.id = "a", .path = "/a"}}));
  const auto second = write({{.id = "b", .path = "/b"}});
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->made_config);
  EXPECT_EQ(second->default_model, "");
  EXPECT_EQ(config::load_config(config())->default_model, "a");
}

TEST_F(ModelEntry, IdsThatDifferInASignAloneHaveFilesOfTheirOwn) {
  const auto written =
      write({{.id = "a/b", .path = "/1"}, {.id = "a:b", .path = "/2"}, {.id = "a-b", .path = "/3"}});
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(config::load_config(config())->models.size(), 4U);
}

TEST_F(ModelEntry, WhatCannotBeReadBackLeavesNothingBehind) {
  for (const NewModel& wrong :
       {NewModel{.id = "-a", .path = "/a"}, NewModel{.id = "", .path = "/a"},
        NewModel{.id = "a b", .path = "/a"}, NewModel{.id = "a", .path = "/new\nline"},
        NewModel{.id = "a", .path = "/not \xff utf-8"}, NewModel{.id = "a", .path = "/a", .sha256 = "short"},
        NewModel{.id = "demo", .path = "/a"}}) {
    EXPECT_FALSE(write({{.id = "good", .path = "/good"}, wrong})) << wrong.id << " " << wrong.path;
    EXPECT_EQ(files(), 0U) << wrong.id << " " << wrong.path;
  }
}

TEST_F(ModelEntry, MoreFilesThanAConfigurationReadsAreRefusedTogether) {
  std::vector<NewModel> models;
  for (int i = 0; i < 101; ++i) models.push_back({.id = "m" + std::to_string(i), .path = "/m"});
  const auto written = write(models);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("the limit is 100"));
  EXPECT_FALSE(fs::exists(config()));
}

TEST(ModelId, IsMadeOfAnyName) {
  EXPECT_EQ(model_id_from("qwen3:8b"), "qwen3:8b");
  EXPECT_EQ(model_id_from("Qwen3 0.6B (Q8)"), "Qwen3-0.6B-Q8");
  EXPECT_EQ(model_id_from("Small (1).Q4_0"), "Small-1.Q4_0");
  EXPECT_EQ(model_id_from("hf.co/me/GGUF:Q8_0"), "hf.co/me/GGUF:Q8_0");
  EXPECT_EQ(model_id_from("../../etc/passwd"), "etc/passwd");
  EXPECT_EQ(model_id_from("\x1b[2Jred"), "2Jred");
  EXPECT_EQ(model_id_from(""), "model");
  EXPECT_EQ(model_id_from("\xff\xfe"), "model");
  EXPECT_EQ(model_id_from(std::string(500, 'a')).size(), 128U);
}

TEST(MachinePools, APoolIsOneWordOfACommandLine) {
  const graph::PlanPool pool{"cpu, in this machine's memory", 123456789, 2};
  const auto back = pool_from_argument(pool_argument(pool));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->name, pool.name);
  EXPECT_EQ(back->bytes, pool.bytes);
  EXPECT_EQ(back->kv_eighths, pool.kv_eighths);
  for (const char* const text : {"", "1", "1:", "1:2", "x:2:a", "1:9:a", ":1:a", "1:-1:a"})
    EXPECT_FALSE(pool_from_argument(text)) << text;
}

}  // namespace
}  // namespace flyball::cli
