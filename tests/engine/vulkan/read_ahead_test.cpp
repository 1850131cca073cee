// What is read ahead is in memory afterwards, from its first byte to its last.
#include "backends/vulkan/read_ahead.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/temp_dir.hpp"

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
  std::size_t missing_pages() const {
    std::vector<unsigned char> there(kBytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + 1);
    EXPECT_EQ(mincore(at_, kBytes, there.data()), 0);
    std::size_t missing = 0;
    for (const unsigned char page : there) missing += (page & 1U) == 0 ? 1 : 0;
    return missing;
  }

  test::TempDir folder_;
  std::byte* at_ = nullptr;
  int file_ = -1;
};

TEST_F(ReadAheadTest, BringsEveryPage) {
  if (missing_pages() == 0) GTEST_SKIP() << "this file system keeps its files in memory";
  ReadAhead({{at_ + 100, kBytes / 2}, {at_ + 100 + kBytes / 2, kBytes - 100 - kBytes / 2}}).finish();
  EXPECT_EQ(missing_pages(), 0U);
}

TEST_F(ReadAheadTest, EndsWithItsOwner) {
  ReadAhead first({{at_, kBytes}});
  ReadAhead second(std::move(first));
  second = ReadAhead();
  EXPECT_EQ(munmap(at_, kBytes), 0) << "nobody reads there any more";
  at_ = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file_, 0));
  ASSERT_NE(at_, MAP_FAILED);
}

}  // namespace
}  // namespace flyball::vulkan
