#include "backends/device/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <optional>

namespace flyball::device {
namespace {

// The file's first word; nullopt: "max", or no number.
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// What the kernel takes back by itself: the page cache, but not the tmpfs and shared memory counted in it.
std::uint64_t reclaimable(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  std::uint64_t cache = 0, shared = 0;
  for (std::uint64_t value = 0; file >> key >> value;) {
    if (key == "file") cache = value;
    if (key == "shmem") shared = value;
  }
  return cache - std::min(cache, shared);
}

void apply(const std::string& group, CgroupLimits& limits) {
  if (const auto max = read_number(group + "/memory.max")) {
    const std::uint64_t current = read_number(group + "/memory.current").value_or(0);
    const std::uint64_t held = current - std::min(current, reclaimable(group + "/memory.stat"));
    limits.memory = std::min(limits.memory, *max);
    limits.memory_left = std::min(limits.memory_left, *max - std::min(*max, held));
  }
  std::ifstream file(group + "/cpu.max");  // "QUOTA PERIOD" in microseconds, or "max PERIOD"
  std::uint64_t quota = 0, period = 0;
  if (file >> quota >> period && period > 0)
    limits.processors = std::min(limits.processors, static_cast<double>(quota) / static_cast<double>(period));
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& membership, const std::string& mount) {
  CgroupLimits limits;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;  // version 1
    std::string group = line.substr(3);
    while (group.ends_with('/')) group.pop_back();
    apply(mount + group, limits);
    while (!group.empty()) {
      group.resize(group.rfind('/'));
      apply(mount + group, limits);
    }
  }
  return limits;
}

}  // namespace flyball::device
