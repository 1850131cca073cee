// The table of engine kinds.
#include "config/engine_kinds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace flyball::config {
namespace {

TEST(EngineKinds, AreFoundByTheirIds) {
  std::set<std::string_view> ids;
  for (const EngineKind& kind : kEngineKinds) {
    EXPECT_TRUE(ids.insert(kind.id).second) << kind.id << " twice";
    EXPECT_EQ(find_engine_kind(kind.id), &kind);
  }
  EXPECT_EQ(find_engine_kind("CPU"), nullptr);
  EXPECT_EQ(find_engine_kind(""), nullptr);
  EXPECT_EQ(kCpu.id, "cpu");
  EXPECT_EQ(kVulkan.id, "vulkan");
  EXPECT_EQ(kOpenCl.id, "opencl");
}

TEST(EngineKinds, ModelsOfKindsWithoutDevicesLieInTheMachinesMemory) {
  for (const EngineKind& kind : kEngineKinds)
    EXPECT_EQ(kind.memory == EngineKind::Memory::device, kind.has_devices()) << kind.id;
  EXPECT_THAT(engine_ids(), testing::ElementsAre("cpu", "vulkan", "opencl"));
  EXPECT_THAT(engine_ids(KindFilter::with_devices), testing::ElementsAre("vulkan", "opencl"));
}

TEST(EngineKinds, EachHasAValueOfItsOwn) {
  PerKind<int> a, b;
  a[kVulkan] = 1;
  EXPECT_NE(a, b);
  b[kVulkan] = 1;
  EXPECT_EQ(a, b);
  EXPECT_EQ(a[kCpu] + a[kOpenCl], 0);
}

}  // namespace
}  // namespace flyball::config
