// The parts of a configuration that a running daemon cannot change, and the places where one is found.
#include "daemon/settings/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "daemon/settings/config_files.hpp"
#include "tests/harness/temp_dir.hpp"

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

TEST(Settings, AConfigurationMayBeCalledYml) {
  const test::TempDir dir;
  ::setenv("XDG_CONFIG_HOME", dir.path().c_str(), 1);
  const auto folder = dir.path() / "flyball";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "config.yml") << "x";
  EXPECT_EQ(find_config(), folder / "config.yml");
  EXPECT_EQ(unused_config(folder / "config.yml"), "");
  std::ofstream(folder / "config.yaml") << "x";
  EXPECT_EQ(find_config(), folder / "config.yaml");
  EXPECT_EQ(unused_config(folder / "config.yaml"), folder / "config.yml");
  EXPECT_EQ(unused_config(folder / "config.yml"), folder / "config.yaml");
  EXPECT_EQ(unused_config(folder / "other.yaml"), "") << "beside a file of another name neither is expected";
  ::unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace flyball::settings
