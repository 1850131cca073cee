#include "daemon/measure/power.hpp"

#include <fstream>
#include <map>
#include <string>
#include <system_error>

namespace flyball::measure {
namespace {

std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// "intel-rapl:0" is a package; "intel-rapl:0:1" a part of it, counted there already.
bool is_package(const std::string& name) {
  return name.starts_with("intel-rapl:") && name.find(':') == name.rfind(':');
}

}  // namespace

std::optional<Energy> read_energy(const std::filesystem::path& root) {
  std::map<std::string, Energy::Package> packages;  // in order of name
  std::error_code error;
  for (std::filesystem::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_package(name)) continue;
    const auto used = read_number(at->path() / "energy_uj");
    const auto range = read_number(at->path() / "max_energy_range_uj");
    if (!used || !range) return std::nullopt;
    packages[name] = {*used, *range};
  }
  if (packages.empty()) return std::nullopt;
  Energy energy;
  for (const auto& [name, package] : packages) energy.packages.push_back(package);
  energy.at = std::chrono::steady_clock::now();
  energy.root = root;
  return energy;
}

std::optional<double> watts_between(const Energy& before, const Energy& after) {
  const double seconds = std::chrono::duration<double>(after.at - before.at).count();
  if (seconds <= 0 || before.packages.size() != after.packages.size()) return std::nullopt;
  double joules = 0;
  for (std::size_t i = 0; i < before.packages.size(); ++i) {
    const auto& [from, wraps_at] = before.packages[i];
    const std::uint64_t to = after.packages[i].microjoules;
    if (to < from && wraps_at < from) return std::nullopt;
    joules += static_cast<double>(to >= from ? to - from : wraps_at - from + to) * 1e-6;
  }
  return joules / seconds;
}

std::optional<double> watts_since(const std::optional<Energy>& before) {
  if (!before) return std::nullopt;
  const auto after = read_energy(before->root);
  return after ? watts_between(*before, *after) : std::nullopt;
}

}  // namespace flyball::measure
