#include "daemon/probe/hardware_facts.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>
#include <span>

#include "backends/device/choice.hpp"
#include "daemon/probe/same_hardware.hpp"

namespace flyball::probe {
namespace {

constexpr const char* kProbe = kProbeSource;
constexpr const char* kBuild = "build";
constexpr const char* kFromConfig = "config";
constexpr const char* kDiscrete = "discrete";      // a kind of device
constexpr std::uint64_t kMostMemory = 1ULL << 50;  // of one device: sums stay far from any limit

std::int64_t as_integer(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
}

std::vector<const DeviceReport*> working(const DeviceProbe& probe, std::string_view kind) {
  std::vector<const DeviceReport*> out;
  for (const DeviceReport& device : probe.devices)
    if (device.dispatched && device.kind == kind) out.push_back(&device);
  return out;
}

// The GPUs as the engine kind sees them that finds most: the kinds look at the same hardware.
std::vector<const DeviceReport*> gpus(const HardwareReport& report, std::string_view device_kind) {
  std::vector<const DeviceReport*> most;
  for (const config::EngineKind& kind : config::kEngineKinds)
    if (auto seen = working(report.devices[kind], device_kind); seen.size() > most.size())
      most = std::move(seen);
  return most;
}

bool more_memory(const DeviceReport* a, const DeviceReport* b) {
  return a->memory_bytes < b->memory_bytes;
}

std::string with_devices(std::string reason, const DeviceProbe& probe) {
  std::string found;
  for (const DeviceReport& device : probe.devices)
    if (device.dispatched)
      found += (found.empty() ? "" : ", ") + device.name + (device.kind == "software" ? " (software)" : "");
  return found.empty() ? reason : reason + "; device found: " + found;
}

// The ids of the devices that `names` names, each once, else the best GPU. Only devices that ran the probe's
// kernel. The error says why one is missing.
ApprovedDevices approved(const DeviceProbe& probe, const std::string& api,
                         const std::vector<std::string>& names) {
  std::vector<device::Candidate> candidates;
  for (const DeviceReport& device : probe.devices) candidates.push_back({&device, device.dispatched});
  std::vector<std::string> ids;
  const auto take = [&](const std::string& name) {
    const auto i = device::choose_device(candidates, name);
    if (i) ids.push_back(probe.devices[*i].id);
    if (i) candidates[*i].usable = false;
    return i.has_value();
  };
  if (names.empty() && !take(""))
    return std::unexpected(with_devices("no GPU ran the probe's kernel by " + api, probe));
  for (const std::string& name : names)
    if (const bool beside = !ids.empty(); !take(name))
      return std::unexpected(with_devices("no " + api + " device called " + name + " ran the probe's kernel" +
                                              (beside ? ", beside those already taken" : ""),
                                          probe));
  return ids;
}

// The best discrete GPU that ran the probe's kernel and is none of `cards`.
std::optional<std::string> best_card_beside(const DeviceProbe& probe, std::span<const ProbedDevice> cards) {
  std::vector<device::Candidate> candidates;
  for (const DeviceReport& device : probe.devices) {
    const auto opened = [&](const ProbedDevice& card) { return same_hardware(card, {&probe, &device}); };
    candidates.push_back(
        {&device, device.dispatched && device.kind == kDiscrete && std::ranges::none_of(cards, opened)});
  }
  const auto i = device::choose_device(candidates, "");
  return i ? std::optional(probe.devices[*i].id) : std::nullopt;
}

// The discrete GPUs among the devices of a kind that `ids` names.
std::vector<ProbedDevice> cards_of(const DeviceProbe& probe, const std::vector<std::string>& ids) {
  std::vector<ProbedDevice> out;
  for (const DeviceReport& device : probe.devices)
    if (device.kind == kDiscrete && std::ranges::find(ids, device.id) != ids.end())
      out.push_back({&probe, &device});
  return out;
}

// Whether engines of the kind compute on a card that those of another kind compute on.
bool shares_card(const config::EngineKind& kind, const HardwareReport& report,
                 const config::PerKind<ApprovedDevices>& devices) {
  const auto cards = cards_of(report.devices[kind], *devices[kind]);
  return std::ranges::any_of(config::kEngineKinds, [&](const config::EngineKind& other) {
    if (&other == &kind || !other.has_devices() || !devices[other]) return false;
    const auto theirs = cards_of(report.devices[other], *devices[other]);
    return std::ranges::any_of(cards, [&](const ProbedDevice& card) {
      return std::ranges::any_of(theirs, [&](const ProbedDevice& one) { return same_hardware(card, one); });
    });
  });
}

}  // namespace

config::PerKind<ApprovedDevices> approved_devices(const HardwareReport& report,
                                                  const config::PerKind<config::DeviceNames>& names) {
  config::PerKind<ApprovedDevices> out;
  std::vector<ProbedDevice> cards;  // discrete GPUs that a kind opens already
  // From the last kind on: OpenCL is the engine of discrete GPUs, and chooses before Vulkan.
  for (const config::EngineKind& kind : std::views::reverse(config::kEngineKinds)) {
    if (!kind.has_devices()) continue;
    const DeviceProbe& probe = report.devices[kind];
    const auto other = names[kind].empty() && !cards.empty() ? best_card_beside(probe, cards) : std::nullopt;
    out[kind] = other ? std::vector{*other} : approved(probe, std::string(kind.name), names[kind]);
    if (!out[kind]) continue;
    for (const ProbedDevice& card : cards_of(probe, *out[kind])) cards.push_back(card);
  }
  return out;
}

config::PerKind<std::vector<std::string>> opened_devices(const HardwareReport& report,
                                                         const config::PerKind<config::DeviceNames>& names) {
  config::PerKind<std::vector<std::string>> ids;
  auto devices = approved_devices(report, names);
  for (const config::EngineKind& kind : config::kEngineKinds)
    ids[kind] = std::move(devices[kind]).value_or(std::vector<std::string>());
  return ids;
}

bool has_own_memory(const DeviceProbe& probe, const std::string& id) {
  const auto device = std::ranges::find(probe.devices, id, &DeviceReport::id);
  return device != probe.devices.end() && !device->unified;
}

void set_hardware_facts(const HardwareReport& report, policy::Facts& facts) {
  const cpu::CpuReport& c = report.cpu;
  facts.set("hardware.os", std::string("linux"), kBuild);
  facts.set("hardware.cluster.nodes", std::int64_t{1},
            kFromConfig);  // no orchestrator upstream is configured
  if (!c.model.empty()) facts.set("hardware.cpu.model", c.model, kProbe);
  facts.set("hardware.cpu.isa", c.isa, kProbe);
  facts.set("hardware.cpu.cores", std::int64_t{c.cores}, kProbe);
  facts.set("hardware.cpu.threads", std::int64_t{c.threads}, kProbe);
  if (c.bandwidth_1t > 0) {
    const auto rounded = [](double gb_per_s) {
      return std::round(gb_per_s * 10) / 10;
    };  // no more was measured
    facts.set("hardware.cpu.bandwidth_1t", rounded(c.bandwidth_1t), kProbe);
    facts.set("hardware.cpu.bandwidth", rounded(c.bandwidth), kProbe);
  }
  if (c.memory_total > 0) {
    facts.set("hardware.memory.total", as_integer(c.memory_total), kProbe);
    facts.set("hardware.memory.available", as_integer(c.memory_available), kProbe);
  }

  const auto discrete = gpus(report, kDiscrete);
  const auto integrated = gpus(report, "integrated");
  const bool all_answered = std::ranges::all_of(
      config::kEngineKinds, [&](const config::EngineKind& kind) { return report.devices[kind].answered; });
  if (discrete.empty() && integrated.empty() && !all_answered) return;
  facts.set("hardware.gpu.count", static_cast<std::int64_t>(discrete.size() + integrated.size()), kProbe);
  facts.set("hardware.gpu.discrete_count", static_cast<std::int64_t>(discrete.size()), kProbe);
  facts.set("hardware.gpu.integrated_count", static_cast<std::int64_t>(integrated.size()), kProbe);
  facts.set("hardware.memory.unified", discrete.empty() && !integrated.empty(), kProbe);

  const auto& best_kind = discrete.empty() ? integrated : discrete;
  if (!best_kind.empty()) {
    const DeviceReport& best = **std::ranges::max_element(best_kind, more_memory);
    facts.set("hardware.gpu.kind", best.kind, kProbe);
    facts.set("hardware.gpu.name", best.name, kProbe);
    facts.set("hardware.gpu.vendor", best.vendor, kProbe);
    facts.set("hardware.gpu.memory", as_integer(best.memory_bytes), kProbe);
  } else {
    const bool software = !gpus(report, "software").empty();
    facts.set("hardware.gpu.kind", std::string(software ? "software" : "none"), kProbe);
    facts.set("hardware.gpu.vendor", std::string("none"), kProbe);
  }
  std::uint64_t total = 0;
  for (const DeviceReport* device : discrete) total += std::min(device->memory_bytes, kMostMemory);
  facts.set("hardware.gpu.memory_total", as_integer(total), kProbe);
}

void set_engine_facts(const HardwareReport& report, const config::PerKind<config::DeviceNames>& names,
                      policy::Facts& facts) {
  using policy::TargetFact;
  const auto absent = [&](const policy::TargetInstance& target, std::string reason, const char* source) {
    facts.set(fact_of(target, TargetFact::available), false, source);
    facts.set(fact_of(target, TargetFact::reason), std::move(reason), source);
  };
  const auto by_kind = approved_devices(report, names);
  std::uint64_t used = 0;  // of discrete GPUs, by the kind that spreads a model over several
  for (const policy::TargetInstance& target : facts.targets()->instances()) {
    const config::EngineKind* const kind = config::find_engine_kind(target.kind);
    if (kind == nullptr) {
      if (!target.configured) absent(target, "no upstream of this kind is configured", kFromConfig);
      continue;
    }
    if (!kind->has_devices()) {
      facts.set(fact_of(target, TargetFact::available), true, kBuild);
      continue;
    }
    const ApprovedDevices& devices = by_kind[*kind];
    if (!devices) {
      absent(target, devices.error(), kProbe);
      continue;
    }
    facts.set(fact_of(target, TargetFact::available), true, kProbe);
    facts.set(fact_of(target, TargetFact::shares_card), shares_card(*kind, report, by_kind), kProbe);
    if (kind->most_devices == 1 || target.is_own_engine()) continue;  // its kind's cards count once
    for (const ProbedDevice& card : cards_of(report.devices[*kind], *devices))
      used += std::min(card.device->memory_bytes, kMostMemory);
  }
  if (used > 0) facts.set("hardware.gpu.memory_used", as_integer(used), kProbe);
}

policy::Facts facts_of(const HardwareReport& report, const config::PerKind<config::DeviceNames>& names,
                       const policy::Targets& targets) {
  policy::Facts facts(targets);
  set_hardware_facts(report, facts);
  set_engine_facts(report, names, facts);
  return facts;
}

}  // namespace flyball::probe
