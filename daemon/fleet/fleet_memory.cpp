#include "daemon/fleet/fleet_memory.hpp"

#include <algorithm>

#include "backends/device/memory.hpp"
#include "daemon/fleet/pools.hpp"
#include "daemon/fleet/pressure.hpp"
#include "daemon/fleet/touched.hpp"

namespace flyball::fleet {
namespace {

// How often the system is asked whether it is short of memory, while there is an engine.
constexpr std::chrono::seconds kPressureLook{5};
// As old as that a status may be: requests are decided on it, and reading /proc for each would cost more than
// the decision.
constexpr std::chrono::seconds kFresh{1};

MachineMemory this_machine() {
  MachineMemory memory{device::total_memory(), device::available_memory()};
  if (const auto pressure = read_memory_pressure()) {
    memory.pressure = pressure->some;
    memory.short_of_memory = pressure->high();
  }
  return memory;
}

}  // namespace

FleetMemory::FleetMemory(const config::MemoryRules& rules, const FleetOptions& options, Processes processes)
    : rules_(rules),
      devices_(options.device_memory),
      ask_machine_(options.machine_memory ? options.machine_memory : this_machine),
      ask_touched_(options.touched_memory ? options.touched_memory
                                          : [](int pid) { return touched_memory(pid); }),
      processes_(std::move(processes)),
      margin_(options.margin),
      machine_(ask_machine_()),
      governor_(memory_pools(rules_, machine_.total, devices_), governor_limits(rules_)) {}

void FleetMemory::set(const config::MemoryRules& rules) {
  rules_ = rules;
  governor_.set(memory_pools(rules_, machine_.total, devices_), governor_limits(rules_));
}

void FleetMemory::keep(const Slot& slot) {
  const MemoryClaim now = claim(slot, {});
  governor_.keep(slot.id, now.pinned, now.keep);
}

bool FleetMemory::has_own_memory(const std::string& backend) const {
  return pool_of(backend, devices_) != kMachinePool;
}

MemoryClaim FleetMemory::claim(const Slot& slot, const MemoryNeed& need) const {
  MemoryClaim claim = claim_of(slot, pool_of(slot.backend, devices_), need, rules_.idle_unload);
  claim.most = most_of(slot.backend, rules_, devices_);
  return claim;
}

std::uint64_t FleetMemory::margin_bytes(const MemoryClaim& claim, const std::string& backend) const {
  const std::uint64_t least = claim.need.least_bytes();
  std::uint64_t most = std::min(claim.most, governor_.most_for_one(claim.pool));
  for (const Asker& asker : claim.askers)
    if (asker.resident > 0) most = std::min(most, asker.resident);
  const double share = margin_ ? margin_(backend) : 0;
  return std::min(static_cast<std::uint64_t>(share * static_cast<double>(least)),
                  most - std::min(most, least));
}

void FleetMemory::ask(Slot& slot, MemoryNeed need, TimePoint now) {
  MemoryClaim mine = claim(slot, need);
  slot.margin_bytes = margin_bytes(mine, slot.backend);
  mine.need.scratch_bytes += slot.margin_bytes;
  governor_.ask(slot.id, std::move(mine), now);
}

std::uint64_t FleetMemory::ask_spare(Governor::Id id, const config::ModelEntry& model,
                                     const std::string& backend, MemoryNeed need, TimePoint now) {
  MemoryClaim claim;
  claim.model = model.id;
  claim.pool = pool_of(backend, devices_);
  claim.need = need;
  claim.group = model.group;
  claim.spare = true;
  claim.most = most_of(backend, rules_, devices_);
  const std::uint64_t margin = margin_bytes(claim, backend);
  claim.need.scratch_bytes += margin;
  governor_.ask(id, std::move(claim), now);
  return margin;
}

std::optional<LoadReport> FleetMemory::ready(const Slot& slot, const BackendInfo& info, TimePoint now) {
  const std::uint64_t granted = governor_.bytes(slot.id),
                      holds = info.weight_bytes + info.kv_bytes + info.scratch_bytes;
  governor_.ready(slot.id, claim(slot, {}), holds, now);
  if (granted == 0) return std::nullopt;
  return LoadReport{slot.entry.id, slot.backend, granted - std::min(granted, slot.margin_bytes), holds,
                    (slot.asked - slot.began) + (now - slot.granted)};
}

Governor::Step FleetMemory::decide(TimePoint now, std::span<const Governor::Use> uses) {
  const bool watches = rules_.relieve_pressure && machine_.pressure && !governor_.empty();
  if (governor_.anybody_waits() || (watches && now >= next_look_)) {
    look(now);
    next_look_ = now + kPressureLook;
  }
  const std::uint64_t available[] = {available_to_engines(rules_, machine_.total, machine_.available)};
  Governor::Step step =
      governor_.decide({now, uses, available, rules_.relieve_pressure && machine_.short_of_memory});
  if (watches && (!step.look_again || next_look_ < *step.look_again)) step.look_again = next_look_;
  return step;
}

std::optional<Governor::Action> FleetMemory::make_room(const Slot& slot, TimePoint idle_since,
                                                       std::span<const Governor::Use> uses, TimePoint now) {
  return governor_.make_room(claim(slot, {}), idle_since, uses, now);
}

void FleetMemory::look(TimePoint now) {
  machine_ = ask_machine_();
  looked_ = now;
  for (const auto& [id, pid] : processes_())
    if (const auto bytes = ask_touched_(pid)) governor_.touched(id, *bytes);
}

MemoryStatus FleetMemory::status(TimePoint now) {
  MemoryStatus status;
  if (now - looked_ >= kFresh) look(now);
  status.age = std::chrono::duration_cast<std::chrono::milliseconds>(now - looked_);
  for (const Governor::PoolState& pool : governor_.pools()) {
    const std::size_t at = status.pools.size();
    const bool machine = at == kMachinePool;
    const std::uint64_t available =
        machine ? available_to_engines(rules_, machine_.total, machine_.available) : Governor::kUnknown;
    status.pools.push_back({pool.name, pool.capacity, pool.accounted,
                            governor_.free_for_engines(at, available), pool.engines, pool.waiting,
                            machine ? std::vector<EngineMemory>{} : engines_of(rules_, devices_[at - 1]),
                            governor_.most_for_one(at)});
  }
  const Governor::Counters& counters = governor_.counters();
  status.loads = counters.loads;
  status.evictions = counters.evictions;
  status.idle_unloads = counters.idle_unloads;
  status.pressure_unloads = counters.pressure_unloads;
  status.unloads = counters.unloads;
  status.waits = counters.waits;
  status.refusals = counters.refusals;
  status.pressure = machine_.pressure;
  return status;
}

}  // namespace flyball::fleet
