// Kernels' times by kind: every kernel that an engine has is of a kind.
#include "backends/graph/kernel_times.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace flyball::graph {
namespace {

// A kernel whose name is of no kind would end `flyball profile`.
TEST(KernelTimes, EveryKernelIsOfAKind) {
  const std::set<std::string> no_ops{"probe", "read_bandwidth", "multiply_add", "weights"};
  int n = 0;
  for (const char* folder : {FLYBALL_SOURCE_DIR "/kernels/opencl", FLYBALL_SOURCE_DIR "/kernels/vulkan"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string extension = file.path().extension(), name = file.path().stem();
      if ((extension != ".cl" && extension != ".comp") || no_ops.contains(name)) continue;
      EXPECT_FALSE(to_string(kind_of(name)).empty()) << name;
      ++n;
    }
  EXPECT_GT(n, 30);
  EXPECT_EQ(kind_of("moe_matvec_q8_0"), KernelKind::product);
  EXPECT_EQ(kind_of("moe_route"), KernelKind::moe_routing);
  EXPECT_EQ(kind_of("attend_combine"), KernelKind::attention);
  EXPECT_DEATH(kind_of("frobnicate"), "");
}

TEST(KernelTimes, AddUpByKind) {
  KernelTimes times;
  times.add("matmul", 0.5);
  times.add("matvec", 0.25);
  times.add("matmul", 0.5);
  times.add("rope", 0.125);
  const auto kinds = times.by_kind();
  EXPECT_EQ(kinds[static_cast<std::size_t>(KernelKind::product)].seconds, 1.25);
  EXPECT_EQ(kinds[static_cast<std::size_t>(KernelKind::product)].launches, 3U);
  EXPECT_EQ(kinds[static_cast<std::size_t>(KernelKind::norm_activation)].launches, 1U);
  EXPECT_EQ(times.seconds(), 1.375);
  times.clear();
  EXPECT_EQ(times.seconds(), 0);
}

}  // namespace
}  // namespace flyball::graph
