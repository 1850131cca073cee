#include "daemon/fleet/pressure.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace flyball::fleet {
namespace {

std::optional<double> average(std::string_view text, std::string_view line) {
  const std::size_t begin = text.find(line);
  if (begin == std::string_view::npos || (begin != 0 && text[begin - 1] != '\n')) return std::nullopt;
  text.remove_prefix(begin + line.size());
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return std::nullopt;
  if (!(percent >= 0 && percent <= 100)) return std::nullopt;
  return percent;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

// Of the second version, whose line is "0::/path".
std::string group_of(const std::string& membership) {
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return "";
}

}  // namespace

std::optional<MemoryPressure> parse_pressure(std::string_view text) {
  const auto some = average(text, "some avg10="), full = average(text, "full avg10=");
  if (!some || !full) return std::nullopt;
  return MemoryPressure{*some, *full};
}

std::optional<MemoryPressure> read_memory_pressure(const std::string& proc, const std::string& cgroups) {
  auto pressure = parse_pressure(contents(proc + "/pressure/memory"));
  const std::string group = group_of(contents(proc + "/self/cgroup"));
  if (group.empty()) return pressure;
  const auto own = parse_pressure(contents(cgroups + group + "/memory.pressure"));
  if (own && (!pressure || own->some > pressure->some)) pressure = own;
  return pressure;
}

}  // namespace flyball::fleet
