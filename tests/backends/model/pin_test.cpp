// The SHA-256 that a model must have: of the very bytes that are then used.
#include "backends/model/pin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "backends/model/model_file.hpp"
#include "tests/backends/model/raw_gguf.hpp"
#include "tests/backends/model/shards.hpp"

namespace flyball::model {
namespace {

using Bytes = std::vector<std::byte>;

std::string sha256_of(const Bytes& bytes) {
  unsigned char hash[32];
  EVP_Digest(bytes.data(), bytes.size(), hash, nullptr, EVP_sha256(), nullptr);
  std::string out;
  for (const unsigned char byte : hash) {
    out += "0123456789ABCDEF"[byte >> 4U];
    out += "0123456789abcdef"[byte & 15U];
  }
  return out;
}

class Pin : public ::testing::Test {
 protected:
  Pin() {
    std::string name = std::filesystem::temp_directory_path() / "flyball-pin-XXXXXX";
    directory_ = ::mkdtemp(name.data());
    const auto model = test::SmallModel().bytes();
    good_.assign(model.begin(), model.end());
    evil_ = good_;
    evil_.back() ^= std::byte{1};  // of a tensor
  }
  ~Pin() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(directory_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return directory_ / name;
  }
  static bool is_good(const ModelFile& file, const Bytes& good) {
    const GgufTensor& tensor = file.gguf().tensors().front();
    const auto bytes = file.storage_of(tensor.data.data());
    return std::ranges::equal(bytes, good);
  }

  std::filesystem::path directory_;
  Bytes good_, evil_;
};

TEST_F(Pin, FileMustHaveItsDigest) {
  const auto path = write("model.gguf", good_);
  EXPECT_TRUE(ModelFile::open(path));
  EXPECT_TRUE(ModelFile::open(path, sha256_of(good_)));
  const auto other = ModelFile::open(path, sha256_of(evil_));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::model_invalid);
  EXPECT_EQ(other.error().param, "sha256");
  EXPECT_THAT(other.error().message, testing::HasSubstr("config.yaml says"));
  const auto directory = ModelFile::open(directory_, sha256_of(good_));
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::invalid_value);
}

TEST_F(Pin, ShardsAreHashedOneAfterTheOther) {
  const auto shards = test::cut_into_shards(good_, 2);
  Bytes all = shards[0];
  all.insert(all.end(), shards[1].begin(), shards[1].end());
  const auto first = write("m-00001-of-00002.gguf", shards[0]);
  const auto second = write("m-00002-of-00002.gguf", shards[1]);
  EXPECT_TRUE(ModelFile::open(first, sha256_of(all)));
  EXPECT_FALSE(ModelFile::open(first, sha256_of(shards[0])));
  Bytes changed = shards[1];
  changed.back() ^= std::byte{1};
  write("m-00002-of-00002.gguf", changed);
  EXPECT_FALSE(ModelFile::open(first, sha256_of(all)));
}

// The opened file is hashed, whatever its path leads to later.
TEST_F(Pin, FileThatIsSwappedBetweenIsNotTheOneThatIsUsed) {
  const auto path = write("model.gguf", good_);
  std::vector<MappedFile> files;
  files.push_back(MappedFile::open(path).value());
  std::filesystem::rename(write("other.gguf", evil_), path);
  EXPECT_TRUE(check_sha256(files, sha256_of(good_), path));
  EXPECT_TRUE(std::ranges::equal(files[0].bytes(), good_));
  EXPECT_FALSE(ModelFile::open(path, sha256_of(good_)));
}

TEST_F(Pin, ModelThatOpensHasTheDigestWhateverIsSwapped) {
  const auto path = write("model.gguf", good_);
  std::atomic<bool> done{false};
  std::thread swaps([&] {
    for (bool evil = true; !done; evil = !evil)
      std::filesystem::rename(write("other.gguf", evil ? evil_ : good_), path);
  });
  const std::string digest = sha256_of(good_);
  int opened = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto file = ModelFile::open(path, digest);
    if (!file) continue;
    ++opened;
    EXPECT_TRUE(is_good(**file, good_)) << "at try " << i;
  }
  done = true;
  swaps.join();
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace flyball::model
