// Split files: the shards together are the model, and what does not belong together is refused.
#include "backends/model/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/model/identity.hpp"
#include "backends/model/model_file.hpp"
#include "backends/model/split_name.hpp"
#include "tests/backends/model/shards.hpp"

namespace flyball::model {
namespace {

using test::cut_into_shards;
using test::ShardKeys;
using test::SmallModel;
using ::testing::HasSubstr;

Result<std::unique_ptr<ModelFile>> joined(const std::vector<std::vector<std::byte>>& shards) {
  return ModelFile::from_shards({shards.begin(), shards.end()});
}
void expect_refused(const Result<std::unique_ptr<ModelFile>>& file, const char* message) {
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::model_invalid);
  EXPECT_THAT(file.error().message, HasSubstr(message));
}

class ShardDir {
 public:
  ShardDir() {
    std::string name = std::filesystem::temp_directory_path() / "flyball-shards-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~ShardDir() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }
  std::filesystem::path write(const std::vector<std::vector<std::byte>>& shards) const {
    for (std::size_t i = 0; i < shards.size(); ++i) write(name(i + 1, shards.size()), shards[i]);
    return path_ / name(1, shards.size());
  }
  std::filesystem::path at(const std::string& name) const { return path_ / name; }
  static std::string name(std::size_t i, std::size_t n) {
    return "m-0000" + std::to_string(i) + "-of-0000" + std::to_string(n) + ".gguf";
  }

 private:
  std::filesystem::path path_;
};

TEST(Split, NamesOfShards) {
  const auto name = shard_name("/models/a-b-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "/models/a-b");
  EXPECT_EQ(name->number, 2U);
  EXPECT_EQ(name->count, 13U);
  EXPECT_EQ(shard_path(*name, 13), "/models/a-b-00013-of-00013.gguf");
  for (const char* other : {"a.gguf", "a-00000-of-00002.gguf", "a-00003-of-00002.gguf",
                            "a-0001-of-00002.gguf", "a-00001-of-00002.bin", "a00001-of-00002.gguf",
                            "a-0000x-of-00002.gguf", "a-00001-of-99999.gguf", "-of-.gguf", ""}) {
    EXPECT_FALSE(shard_name(other)) << other;
    EXPECT_EQ(shard_files(other).size(), 1U) << other;
  }
  EXPECT_EQ(shards_of(*shard_name("a-00002-of-00002.gguf")).front(), "a-00001-of-00002.gguf");
}

TEST(Split, ShardsTogetherAreTheModel) {
  SmallModel model;
  model.layers = 2;
  const auto bytes = model.bytes();
  const auto whole = ModelFile::from_bytes(bytes);
  const auto shards = cut_into_shards(bytes, 3);
  const auto file = joined(shards);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->config().n_layers, 2U);
  EXPECT_EQ((*file)->parameter_count(), (*whole)->parameter_count());
  EXPECT_EQ((*file)->weight_bytes(), (*whole)->weight_bytes());
  for (const GgufTensor& tensor : (*whole)->gguf().tensors()) {
    const GgufTensor* own = (*file)->gguf().tensor(tensor.name);
    ASSERT_NE(own, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(own->data, tensor.data)) << tensor.name;
    EXPECT_FALSE((*file)->storage_of(own->data.data()).empty()) << tensor.name;
  }
}

TEST(Split, OneShardIsNotTakenForTheWhole) {
  const auto shards = cut_into_shards(SmallModel{}.bytes(), 3);
  expect_refused(ModelFile::from_bytes(shards[0]), "the file is shard 1 of 3, not a whole model");
  expect_refused(ModelFile::from_bytes(shards[1]), "the file is shard 2 of 3, not a whole model");
  // A split of one is whole.
  const auto alone = cut_into_shards(SmallModel{}.bytes(), 1);
  EXPECT_TRUE(ModelFile::from_bytes(alone[0]));
}

TEST(Split, OpensByItsFirstShard) {
  const ShardDir dir;
  const auto bytes = SmallModel{}.bytes();
  const auto shards = cut_into_shards(bytes, 3);
  const auto first = dir.write(shards);
  {
    const auto file = ModelFile::open(first);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE((*file)->mapped());
    const auto before = identity_of(**file, first);
    EXPECT_EQ(identity_of(**file, first), before);
    std::filesystem::last_write_time(dir.at(ShardDir::name(3, 3)), std::filesystem::file_time_type());
    EXPECT_NE(identity_of(**file, first), before) << "another shard was written over";
  }
  const auto second = ModelFile::open(dir.at(ShardDir::name(2, 3)));
  expect_refused(second, "opened by its first one, m-00001-of-00003.gguf");
  expect_refused(ModelFile::open(dir.write("other.gguf", shards[0])),
                 "the file is shard 1 of 3: it and its siblings must have the names");
  std::filesystem::remove(dir.at(ShardDir::name(2, 3)));
  const auto missing = ModelFile::open(first);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io_error);
  EXPECT_THAT(missing.error().message, HasSubstr("shard 2 of 3 of the model is missing"));
  EXPECT_THAT(missing.error().where, HasSubstr("m-00002-of-00003.gguf"));
  dir.write(ShardDir::name(2, 3), std::span(shards[1]).first(shards[1].size() / 2));
  expect_refused(ModelFile::open(first), "shard 2 of 3: ");
}

TEST(Split, AMergedModelMayKeepTheNameOfItsFirstShard) {
  const ShardDir dir;
  const auto path = dir.write(ShardDir::name(1, 3), SmallModel{}.bytes());
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(shard_files(path), std::vector{path});
  dir.write(ShardDir::name(3, 3), {});
  EXPECT_EQ(shard_files(path).size(), 3U) << "the name of a shard, and another one beside it";
}

TEST(Split, ShardsAreCheckedAgainstEachOther) {
  const auto bytes = SmallModel{}.bytes();
  const auto shards = cut_into_shards(bytes, 3);
  expect_refused(joined({shards[0], shards[2], shards[1]}),
                 "the file in the place of shard 2 of 3 says that it is shard 3 of 3");
  expect_refused(joined({shards[0], shards[1]}), "the file is shard 1 of 3, not a whole model");
  expect_refused(joined({bytes, shards[1]}), "the first of several files has no split.count");
  expect_refused(joined({shards[0], bytes, shards[2]}), "the file in the place of shard 2 of 3 is no shard");
  const auto with = [&](auto edit) {
    return joined(cut_into_shards(bytes, 3, [&](std::uint16_t i, ShardKeys& keys) {
      if (i == 1) edit(keys);
    }));
  };
  EXPECT_TRUE(with([](ShardKeys& keys) { keys.architecture = "llama"; }));
  expect_refused(with([](ShardKeys& keys) { keys.architecture = "qwen2"; }),
                 "shard 2 of 3 is of the architecture qwen2, the first shard of llama");
  expect_refused(with([](ShardKeys& keys) { keys.count = 4; }), "says that it is shard 2 of 4");
  expect_refused(with([](ShardKeys& keys) { keys.tensors = 99; }), "shard 2 of 3 says that the model has 99");
  expect_refused(with([](ShardKeys& keys) { keys.no = 3; }), "split.no is 3 of 3 shards; it counts from 0");
  expect_refused(with([](ShardKeys& keys) { keys.tensors = -1; }), "split.tensors.count");
  const auto promised = [&](std::int32_t tensors) {
    return joined(cut_into_shards(bytes, 3, [=](std::uint16_t, ShardKeys& keys) { keys.tensors = tensors; }));
  };
  expect_refused(promised(13), "the shards have 12 tensors where 13 are promised");
  // The same tensors twice, in as many as are promised.
  auto twice = cut_into_shards(bytes, 2, [](std::uint16_t i, ShardKeys& keys) { keys.no = i; });
  const auto again = cut_into_shards(bytes, 2, [](std::uint16_t i, ShardKeys& keys) {
    if (i == 0) keys.no = 1;
  });
  expect_refused(joined({twice[0], again[0]}), "appears twice");
}

}  // namespace
}  // namespace flyball::model
