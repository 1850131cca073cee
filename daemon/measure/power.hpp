// What the processor's own meters say it has used: Linux's powercap tree.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace flyball::measure {

struct Energy {
  struct Package {
    std::uint64_t microjoules = 0, wraps_at = 0;
  };
  std::vector<Package> packages;
  std::chrono::steady_clock::time_point at;
  std::filesystem::path root;
};

// nullopt: there are no meters, or this user may not read them (most systems: root alone).
std::optional<Energy> read_energy(const std::filesystem::path& root = "/sys/class/powercap");
// The mean since then, of all packages. nullopt: they cannot be read any more, or no time has passed.
std::optional<double> watts_since(const std::optional<Energy>& before);
// Pure. Of the same packages.
std::optional<double> watts_between(const Energy& before, const Energy& after);

}  // namespace flyball::measure
