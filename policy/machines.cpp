#include "policy/machines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "embedded/machines.hpp"
#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

constexpr const char* kMachinesFile = "<shipped machines.tsv>";
constexpr std::string_view kMachinesHeader =
    "names\tvendor\tclass\tmemory_gib\tbandwidth_gbps\tgeneration\tsource";
constexpr std::size_t kColumns = 7;
constexpr std::size_t kMaxMachines = 1000;
constexpr double kMaxNumber = 1e6;  // GiB or GB/s
constexpr std::array<std::string_view, 3> kMachineClasses{"discrete", "unified", "no_gpu"};

std::vector<std::string_view> split_whole(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// "8/16". nullopt: one of them is no positive number.
std::optional<std::vector<double>> numbers(std::string_view text) {
  std::vector<double> out;
  for (const std::string_view part : split_whole(text, '/')) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || !(value > 0) || value > kMaxNumber)
      return std::nullopt;
    out.push_back(value);
  }
  return out;
}

Error mistake(std::string message, std::string_view file, std::size_t line) {
  return {ErrorCode::config_invalid, std::move(message), {}, std::string(file) + ":" + std::to_string(line)};
}

}  // namespace

bool Machine::has_memory(double gib) const noexcept {
  return std::ranges::find(memory, gib) != memory.end();
}

Result<std::vector<Machine>> parse_machines(std::string_view tsv, std::string_view file_name) {
  std::vector<Machine> out;
  std::map<std::string, std::size_t, std::less<>> lines;  // of each name
  const std::vector<std::string_view> vendors =
      allowed_values(default_targets()->facts()[*find_fact("hardware.gpu.vendor")]);
  std::size_t n = 0;
  for (const std::string_view line : split_whole(tsv, '\n')) {
    const auto wrong = [&](std::string message) {
      return std::unexpected(mistake(std::move(message), file_name, n));
    };
    if (++n == 1) {
      if (line != kMachinesHeader) return wrong("the first line must name the columns");
      continue;
    }
    if (line.empty()) continue;
    if (out.size() == kMaxMachines) return wrong("more than " + std::to_string(kMaxMachines) + " machines");
    const auto columns = split_whole(line, '\t');
    if (columns.size() != kColumns)
      return wrong(std::to_string(columns.size()) + " columns, expected " + std::to_string(kColumns));
    if (std::ranges::any_of(columns, [](std::string_view column) { return column.empty(); }))
      return wrong("a column is empty");
    Machine machine;
    for (const std::string_view name : split_whole(columns[0], '|')) {
      const auto [it, first] = lines.try_emplace(std::string(name), n);
      if (name.empty() || !first)
        return wrong("the name \"" + std::string(name) + "\" stands in line " + std::to_string(it->second) +
                     ", too");
      machine.names.emplace_back(name);
    }
    machine.vendor = columns[1];
    if (std::ranges::find(vendors, columns[1]) == vendors.end())
      return wrong("unknown vendor \"" + machine.vendor + "\"");
    const auto* kind = std::ranges::find(kMachineClasses, columns[2]);
    if (kind == kMachineClasses.end()) return wrong("unknown class \"" + std::string(columns[2]) + "\"");
    machine.kind = static_cast<Machine::Class>(kind - kMachineClasses.begin());
    auto memory = numbers(columns[3]), bandwidth = numbers(columns[4]);
    if (!memory || !bandwidth)
      return wrong("\"" + std::string(memory ? columns[4] : columns[3]) +
                   "\" is no list of positive numbers");
    machine.memory = std::move(*memory);
    machine.bandwidth = std::move(*bandwidth);
    if (columns[5] != "-") machine.generation = columns[5];
    machine.source = columns[6];
    out.push_back(std::move(machine));
  }
  return out;
}

const std::vector<Machine>& shipped_machines() {
  static const std::vector<Machine> machines = [] {
    const auto bytes = embedded::machines();
    auto parsed = parse_machines({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kMachinesFile);
    if (parsed) return std::move(*parsed);
    std::fprintf(stderr, "%s: %s\n", parsed.error().where.c_str(), parsed.error().message.c_str());
    std::abort();  // it is part of the program, and a test reads it
  }();
  return machines;
}

}  // namespace flyball::policy
