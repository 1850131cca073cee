// The folder of compiled kernels: what is not ours, not whole or not writable costs the cache and nothing
// else.
#include "backends/device/kernel_cache.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "tests/harness/temp_dir.hpp"

namespace flyball::device {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
constexpr const char* kKey = "0123abcd";
constexpr KernelCache::Kind kKind{"kernels of a test\n", ".bin"};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* at = reinterpret_cast<const std::byte*>(text.data());
  return {at, at + text.size()};
}

class KernelCacheTest : public testing::Test {
 protected:
  const std::vector<std::byte> binary_ = bytes_of(std::string(1000, 'b'));
  test::TempDir dir_;
  const fs::path folder_ = dir_.path() / "kernels", file_ = folder_ / "0123abcd.bin";

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename());
    return all;
  }
  // A cache with one program.
  void filled() { KernelCache(folder_, kKind).write(kKey, binary_); }
  bool replaced() {  // what is not taken is replaced, once it was compiled again
    KernelCache cache(folder_, kKind);
    if (!cache.read(kKey).empty()) return false;
    cache.write(kKey, binary_);
    return cache.read(kKey) == binary_;
  }
};

TEST_F(KernelCacheTest, KeepsWhatWasWrittenForItsOwnerAlone) {
  filled();
  EXPECT_EQ(KernelCache(folder_, kKind).read(kKey), binary_);
  struct stat s {};
  ASSERT_EQ(stat(folder_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700U);
  ASSERT_EQ(stat(file_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600U);
}

// What is read at every start stays, however long ago it was compiled.
TEST_F(KernelCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  KernelCache cache(folder_, kKind, 3500);
  for (const char* key : {"aa", "bb", "cc"}) {
    cache.write(key, binary_);
    fs::last_write_time(folder_ / (std::string(key) + ".bin"), fs::file_time_type::clock::now() - 1h);
  }
  EXPECT_EQ(cache.read("aa"), binary_);
  EXPECT_EQ(cache.read("cc"), binary_);
  std::ofstream(folder_ / "ee.bin.1.part") << "being written";
  cache.write("dd", binary_);
  EXPECT_TRUE(fs::exists(folder_ / "ee.bin.1.part"));
  for (const char* key : {"aa", "cc", "dd"}) EXPECT_EQ(cache.read(key), binary_) << key;
  EXPECT_TRUE(cache.read("bb").empty());
}

TEST_F(KernelCacheTest, TruncatedFilesAreReplaced) {
  for (const std::uintmax_t size : {0U, 10U, 100U, 1000U}) {
    filled();
    fs::resize_file(file_, size);
    EXPECT_TRUE(replaced()) << size;
  }
}

TEST_F(KernelCacheTest, ForeignFilesAreReplaced) {
  filled();
  std::ofstream(file_) << std::string(2000, 'x');
  EXPECT_TRUE(replaced());
  fs::permissions(file_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_TRUE(replaced());
}

// Another engine's, or another version's.
TEST_F(KernelCacheTest, FilesOfAnotherKindAreReplaced) {
  KernelCache(folder_, {"kernels of another\n", kKind.suffix}).write(kKey, binary_);
  EXPECT_TRUE(replaced());
}

TEST_F(KernelCacheTest, LinksAreNotFollowed) {
  filled();
  const fs::path elsewhere = dir_.path() / "elsewhere";
  fs::rename(file_, elsewhere);
  fs::create_symlink(elsewhere, file_);
  EXPECT_TRUE(replaced());
  EXPECT_FALSE(fs::is_symlink(file_));

  const fs::path link = dir_.path() / "link";
  fs::create_directory_symlink(folder_, link);
  EXPECT_FALSE(KernelCache(link, kKind).keeps());
}

TEST_F(KernelCacheTest, APipeHoldsNobodyUp) {
  filled();
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_TRUE(replaced());
}

// Between the check and the use: the folder that was judged is the one that is used.
TEST_F(KernelCacheTest, AFolderPutInItsPlaceIsNotUsed) {
  filled();
  KernelCache cache(folder_, kKind);
  fs::rename(folder_, dir_.path() / "moved");
  fs::create_directory(folder_);
  std::ofstream(file_) << "bait";
  EXPECT_EQ(cache.read(kKey), binary_);
  cache.write("77", binary_);
  EXPECT_TRUE(fs::exists(dir_.path() / "moved" / "77.bin"));
}

TEST_F(KernelCacheTest, AFolderThatOthersMayWriteToIsNotUsed) {
  filled();
  fs::permissions(folder_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(KernelCache(folder_, kKind).keeps());
}

TEST_F(KernelCacheTest, AFolderThatCannotBeMadeCostsTheCacheAlone) {
  std::ofstream(dir_.path() / "file") << "in the way";
  KernelCache cache(dir_.path() / "file" / "kernels", kKind);
  EXPECT_FALSE(cache.keeps());
  EXPECT_NE(cache.trouble().find("Not a directory"), std::string::npos) << cache.trouble();
  cache.write(kKey, binary_);
  EXPECT_TRUE(cache.read(kKey).empty());
  EXPECT_EQ(KernelCache(fs::path(), kKind).trouble(), "");
}

// As on a full disk: the write stops half-way, and no other is tried before the next start. What was there is
// read.
TEST_F(KernelCacheTest, AFullDiskEndsItsWritingAndLeavesNoHalfAFile) {
  KernelCache cache(folder_, kKind);
  cache.write("77", binary_);
  EXPECT_EQ(cache.trouble(), "");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 500;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  cache.write(kKey, binary_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(names(), std::vector<std::string>{"77.bin"});
  EXPECT_FALSE(cache.keeps());
  EXPECT_NE(cache.trouble().find("File too large"), std::string::npos) << cache.trouble();
  EXPECT_NE(cache.trouble().find(folder_.string()), std::string::npos) << cache.trouble();
  cache.write(kKey, binary_);
  EXPECT_EQ(names(), std::vector<std::string>{"77.bin"});
  EXPECT_EQ(cache.read("77"), binary_);
  filled();
  EXPECT_EQ(KernelCache(folder_, kKind).read(kKey), binary_);
}

}  // namespace
}  // namespace flyball::device
