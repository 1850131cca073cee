// What of a configuration a running daemon cannot change.
#include "daemon/settings/settings.hpp"

#include <gtest/gtest.h>

namespace flyball::settings {
namespace {

TEST(Settings, SomeAreFixedAtStart) {
  using Keys = std::vector<std::string>;
  config::Config running;
  running.listeners.resize(1);
  config::Config read = running;
  EXPECT_EQ(fixed_at_start(running, read), Keys{});
  read.cache_dir = "elsewhere";
  read.default_model = "other";
  EXPECT_EQ(fixed_at_start(running, read), Keys{});
  read.listeners[0].port = 8081;
  EXPECT_EQ(fixed_at_start(running, read), Keys{"listeners"});
  read.state_dir = "elsewhere";
  EXPECT_EQ(fixed_at_start(running, read), (Keys{"listeners", "state_dir"}));
  read = running;
  read.devices[config::kOpenCl] = {"a"};
  EXPECT_EQ(fixed_at_start(running, read), Keys{"opencl.devices"});
  read = running;
  read.devices[config::kVulkan] = {"a"};
  EXPECT_EQ(fixed_at_start(running, read), Keys{"vulkan.device"});
}

}  // namespace
}  // namespace flyball::settings
