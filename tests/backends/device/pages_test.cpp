// Large allocations: when the system counts them as taken.
#include "backends/device/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace flyball::cpu {
namespace {

std::size_t resident_pages(const device::Pages& pages) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> in_memory((pages.size() + page - 1) / page);
  EXPECT_EQ(mincore(pages.data(), pages.size(), in_memory.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(in_memory, [](unsigned char x) { return (x & 1U) != 0; }));
}

TEST(Pages, CommitTakesWhatAllocateOnlyPromised) {
  constexpr std::size_t kBytes = std::size_t{16} << 20U;
  auto pages = device::Pages::allocate(kBytes, "a test");
  ASSERT_TRUE(pages);
  EXPECT_EQ(resident_pages(*pages), 0U);
  pages->commit();
  EXPECT_EQ(resident_pages(*pages), kBytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_TRUE(
      std::all_of(pages->data(), pages->data() + kBytes, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Pages, NothingIsFineToCommit) {
  device::Pages none;
  none.commit();
  EXPECT_EQ(none.size(), 0U);
}

}  // namespace
}  // namespace flyball::cpu
