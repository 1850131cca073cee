// The probe's parent: whatever a driver does in the child, the parent gets a report. And the probe of this
// machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "daemon/probe/probe.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::route {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

probe::HardwareReport with_mode(const char* mode, std::chrono::milliseconds timeout = 20s) {
  setenv("XDG_FLYBALL_PROBE_CHILD_MODE", mode, 1);
  probe::HardwareReport report = probe::probe_hardware({FLYBALL_PROBE_CHILD, timeout});
  unsetenv("XDG_FLYBALL_PROBE_CHILD_MODE");
  return report;
}

TEST(Probe, ACrashIsReported) {
  const auto report = with_mode("crash");
  // Under a sanitizer the signal becomes an exit status.
  EXPECT_THAT(report.devices[config::kVulkan].error,
              testing::AnyOf(HasSubstr("the driver crashed"), HasSubstr("no report")));
  EXPECT_TRUE(report.devices[config::kVulkan].devices.empty());
  EXPECT_FALSE(report.devices[config::kVulkan].answered);
  EXPECT_GT(report.cpu.threads, 0U) << "the rest of the report is there";
}

TEST(Probe, AHangIsEnded) {
  EXPECT_THAT(with_mode("hang", 200ms).devices[config::kOpenCl].error,
              HasSubstr("did not answer within 200 ms"));
  EXPECT_THAT(with_mode("hang_after_closing", 60s).devices[config::kOpenCl].error,
              HasSubstr("the driver crashed"));
}

// One device of several that hangs or crashes its driver hides none that was asked before it.
TEST(Probe, WhatWasFoundBeforeCounts) {
  for (const auto& [mode, trouble] :
       {std::pair("hang_at_the_second", "did not answer within "), std::pair("crash_at_the_second", "")}) {
    DeviceProbe probe;
    // A loaded machine may give the child no time to name the first.
    for (auto timeout = 1s; probe.devices.empty() && timeout < 100s; timeout *= 4)
      probe = with_mode(mode, timeout).devices[config::kVulkan];
    EXPECT_THAT(probe.error, HasSubstr(trouble));
    EXPECT_NE(probe.error, "");
    EXPECT_FALSE(probe.answered);
    ASSERT_EQ(probe.devices.size(), 1U) << mode;
    EXPECT_EQ(probe.devices[0].name, "the first");
    EXPECT_TRUE(probe.devices[0].dispatched);
  }
}

// The daemon listens only after the probe: two drivers that hang cost one timeout, not two. Here each child ends once it
// has seen the other.
TEST(Probe, BothDriversAreAskedAtOnce) {
  const test::TempDir folder;
  setenv("XDG_FLYBALL_PROBE_CHILD_FOLDER", folder.path().c_str(), 1);
  const auto report = with_mode("wait_for_the_other", 60s);
  unsetenv("XDG_FLYBALL_PROBE_CHILD_FOLDER");
  EXPECT_THAT(report.devices[config::kVulkan].error, HasSubstr("status 0 and no report"));
  EXPECT_THAT(report.devices[config::kOpenCl].error, HasSubstr("status 0 and no report"));
}

TEST(Probe, OutputThatIsNoReport) {
  EXPECT_THAT(with_mode("silent").devices[config::kVulkan].error, HasSubstr("status 3 and no report"));
  EXPECT_THAT(with_mode("junk").devices[config::kVulkan].error, HasSubstr("no report"));
  EXPECT_THAT(with_mode("flood").devices[config::kVulkan].error, HasSubstr("printed more than"));
  const auto odd = with_mode("wrong_types").devices[config::kVulkan];
  ASSERT_EQ(odd.devices.size(), 1U);
  EXPECT_EQ(odd.devices[0].name, "");
  EXPECT_EQ(odd.devices[0].memory_bytes, 0U);
  EXPECT_FALSE(odd.devices[0].dispatched);
}

// Receipts show device names, and half a character makes no JSON.
TEST(Probe, LongNamesAreCutBetweenCharacters) {
  const auto probe = with_mode("long_name").devices[config::kVulkan];
  ASSERT_EQ(probe.devices.size(), 1U);
  EXPECT_EQ(probe.devices[0].name, std::string(499, 'a'));
}

TEST(Probe, AProgramThatIsNotThere) {
  EXPECT_THAT(probe::probe_hardware({"/nonexistent/flyball", 1s}).devices[config::kVulkan].error,
              HasSubstr("could not be started: No such file"));
}

TEST(Probe, ThisMachine) {
  const probe::HardwareReport report = probe::probe_hardware({FLYBALL_PROBE_CHILD, 60s});
  EXPECT_GE(report.cpu.threads, report.cpu.cores);
  EXPECT_GT(report.cpu.cores, 0U);
  EXPECT_GT(report.cpu.memory_total, report.cpu.memory_available);
  EXPECT_FALSE(report.cpu.isa.empty());
  const auto json = to_json(report);
  EXPECT_EQ(json["schema"], "flyball.probe/v1");
  EXPECT_THAT(describe(report), HasSubstr("kernels"));
}

void expect_computes(const DeviceProbe& probe) {
  for (const DeviceReport& device : probe.devices) {
    EXPECT_TRUE(device.dispatched) << device.name << ": " << device.error;
    EXPECT_FALSE(device.name.empty());
    EXPECT_THAT(device.kind, testing::AnyOf("discrete", "integrated", "software"));
    EXPECT_GT(device.memory_bytes, 0U);
  }
}

TEST(Probe, VulkanDevicesCompute) {
  const auto report = probe::probe_hardware({FLYBALL_PROBE_CHILD, 60s});
  if (report.devices[config::kVulkan].devices.empty()) GTEST_SKIP() << report.devices[config::kVulkan].error;
  expect_computes(report.devices[config::kVulkan]);
}

TEST(Probe, OpenClDevicesCompute) {
  const auto report = probe::probe_hardware({FLYBALL_PROBE_CHILD, 60s});
  if (report.devices[config::kOpenCl].devices.empty()) GTEST_SKIP() << report.devices[config::kOpenCl].error;
  expect_computes(report.devices[config::kOpenCl]);
}

}  // namespace
}  // namespace flyball::route
