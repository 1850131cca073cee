// Vulkan workers whose device fails under a stream (fault_streams.hpp).
#include <gtest/gtest.h>

#include "tests/backends/vulkan/support.hpp"
#include "tests/daemon/fleet/fault_streams.hpp"

namespace flyball::test {
namespace {

class VulkanStreams : public VulkanTest {};

// A step is one submission and one wait; before the answer some warm the engine up.
TEST_F(VulkanStreams, GoOnElsewhereWhenTheDeviceFails) {
  constexpr DeviceFault kFaults[] = {{"submit:20", "Vulkan device"}, {"wait:20", "Vulkan device"},
                                     {"hang:20", "gave no answer"},  {"allocate:9", "Not enough memory"},
                                     {"build:1", "The kernel"},      {"build:12", "The kernel"}};
  const auto device = vulkan::Device::open(any_vulkan_device()).value();
  expect_streams_go_on("vulkan", {device->facts().id}, kFaults, ", weights copied to");
}

}  // namespace
}  // namespace flyball::test
