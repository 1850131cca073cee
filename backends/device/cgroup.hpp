// What the control groups (v2) of this process leave it: container and service limits that /proc/meminfo and
// the affinity mask do not show. This process's group and each above it may set one.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace flyball::device {

struct CgroupLimits {
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();  // bytes, the lowest memory.max
  // Bytes until one of them is reached (page cache counts as free: the kernel takes it back).
  std::uint64_t memory_left = std::numeric_limits<std::uint64_t>::max();
  double processors = std::numeric_limits<double>::infinity();  // the lowest cpu.max, quota / period
};

// What cannot be read limits nothing.
CgroupLimits cgroup_limits(const std::string& membership = "/proc/self/cgroup",
                           const std::string& mount = "/sys/fs/cgroup");

}  // namespace flyball::device
