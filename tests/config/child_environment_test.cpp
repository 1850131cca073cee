#include "config/child_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace flyball::config {
namespace {

TEST(ChildEnvironment, LeavesSecretsOut) {
  for (const char* name :
       {"OPENAI_API_KEY", "FLYBALL_CHAT_KEY", "HF_TOKEN", "NVIDIA_API_KEY", "LD_SDK_KEY",
        "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "VK_TOKEN", "LC_APP_MASTER_KEY", "XDG_X_TOKEN",
        "POCL_PASSWORD", "MESA_CI_SECRET", "LISTEN_FDS", "AWS_SECRET_ACCESS_KEY", "PATHS", "path", ""})
    EXPECT_FALSE(reaches_children(name)) << name;
}

TEST(ChildEnvironment, KeepsWhatDriversAndTheCLibraryRead) {
  for (const char* name : {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "XDG_CACHE_HOME",
                           "VK_DRIVER_FILES", "MESA_VK_DEVICE_SELECT", "LP_NUM_THREADS", "POCL_DEVICES",
                           "RUSTICL_ENABLE", "ZE_FLAT_DEVICE_HIERARCHY", "VK_LOADER_DEBUG", "OCL_ICD_VENDORS",
                           "CUDA_VISIBLE_DEVICES", "ASAN_OPTIONS", "JOURNAL_STREAM"})
    EXPECT_TRUE(reaches_children(name)) << name;
}

TEST(ChildEnvironment, CopiesTheEntriesOfThisProcess) {
  setenv("POCL_TEST_ENTRY", "a=b c", 1);
  setenv("TEST_ENTRY_KEY", "secret", 1);
  auto entries = child_environment();
  EXPECT_THAT(entries, testing::Contains("POCL_TEST_ENTRY=a=b c"));
  EXPECT_THAT(entries, testing::Not(testing::Contains(testing::HasSubstr("secret"))));
  const auto block = environment_block(entries);
  ASSERT_EQ(block.size(), entries.size() + 1);
  EXPECT_EQ(block.front(), entries.front());
  EXPECT_EQ(block.back(), nullptr);
  unsetenv("POCL_TEST_ENTRY");
  unsetenv("TEST_ENTRY_KEY");
}

}  // namespace
}  // namespace flyball::config
