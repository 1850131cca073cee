// What is read ahead is in memory afterwards, from its first byte to its last.
#include "backends/vulkan/read_ahead.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/harness/temp_dir.hpp"

namespace flyball::vulkan {
namespace {

constexpr std::size_t kBytes = (40U << 20) + 5;  // several pieces, the last one cut

class ReadAheadTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = folder_.path() / "weights";
    file_ = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(file_, 0);
    const std::vector<char> bytes(kBytes, 'x');
    ASSERT_EQ(write(file_, bytes.data(), kBytes), static_cast<ssize_t>(kBytes));
    ASSERT_EQ(fsync(file_), 0);
    ASSERT_EQ(posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED), 0);
    at_ = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file_, 0));
    ASSERT_NE(at_, MAP_FAILED);
  }
  void TearDown() override {
    munmap(at_, kBytes);
    close(file_);
  }
  static std::size_t missing_pages(std::byte* at, std::size_t bytes) {
    const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> there((bytes + page_bytes - 1) / page_bytes);
    EXPECT_EQ(mincore(at, bytes, there.data()), 0);
    std::size_t missing = 0;
    for (const unsigned char page : there) missing += (page & 1U) == 0 ? 1 : 0;
    return missing;
  }

  test::TempDir folder_;
  std::byte* at_ = nullptr;
  int file_ = -1;
};

TEST_F(ReadAheadTest, BringsEveryPage) {
  if (missing_pages(at_, kBytes) == 0) GTEST_SKIP() << "this file system keeps its files in memory";
  ReadAhead({{at_ + 100, kBytes / 2}, {at_ + 100 + kBytes / 2, kBytes - 100 - kBytes / 2}}).finish();
  EXPECT_EQ(missing_pages(at_, kBytes), 0U);
}

// Of a hole that takes seconds to read, most is not read.
TEST_F(ReadAheadTest, EndsWithItsOwner) {
  constexpr std::size_t kHole = 16ULL << 30;
  ASSERT_EQ(ftruncate(file_, kHole), 0);
  auto* const hole = static_cast<std::byte*>(mmap(nullptr, kHole, PROT_READ, MAP_SHARED, file_, 0));
  ASSERT_NE(hole, MAP_FAILED);
  {
    ReadAhead first({{hole, kHole}});
    ReadAhead second(std::move(first));
    second = ReadAhead();
  }
  EXPECT_GT(missing_pages(hole, kHole), 0U);
  munmap(hole, kHole);
}

}  // namespace
}  // namespace flyball::vulkan
