// The governor, and what it has to know of this machine: the pools as configured, what is available, whether
// the system is short of memory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/fleet/governor.hpp"
#include "daemon/fleet/slot.hpp"

namespace flyball::fleet {

class FleetMemory {
 public:
  // Engines whose memory the system tells by their processes.
  using Processes = std::function<std::vector<std::pair<Governor::Id, int>>()>;
  // The system is asked while somebody waits, and every kPressureLook while there is an engine. Of the
  // options: device_memory, machine_memory, touched_memory, margin.
  FleetMemory(const config::MemoryRules& rules, const FleetOptions& options, Processes processes);
  void set(const config::MemoryRules& rules);
  // After a reload: what is kept of it from here on.
  void keep(const Slot& slot);

  // False: such an engine's model lies in the machine's memory.
  bool has_own_memory(const std::string& backend) const;
  // With the margin, which alone makes no model too large for its pool or its app.
  void ask(Slot& slot, MemoryNeed need, TimePoint now);
  // For a measuring process; the margin as ever, and given back.
  std::uint64_t ask_spare(Governor::Id id, const config::ModelEntry& model, const std::string& backend,
                          MemoryNeed need, TimePoint now);
  // What was predicted of it and is; absent: it did not ask.
  std::optional<LoadReport> ready(const Slot& slot, const BackendInfo& info, TimePoint now);
  Governor& governor() noexcept { return governor_; }
  const Governor& governor() const noexcept { return governor_; }

  Governor::Step decide(TimePoint now, std::span<const Governor::Use> uses);
  // Governor::make_room() for this slot's load.
  std::optional<Governor::Action> make_room(const Slot& slot, TimePoint idle_since,
                                            std::span<const Governor::Use> uses, TimePoint now);
  MemoryStatus status(TimePoint now);

 private:
  MemoryClaim claim(const Slot& slot, const MemoryNeed& need) const;
  // That is asked for beside so many bytes of such an engine.
  std::uint64_t margin_bytes(const MemoryClaim& claim, const std::string& backend) const;
  void look(TimePoint now);

  config::MemoryRules rules_;
  const std::vector<DeviceMemory> devices_;
  const std::function<MachineMemory()> ask_machine_;
  const std::function<std::optional<std::uint64_t>(int)> ask_touched_;
  const Processes processes_;
  const std::function<double(const std::string&)> margin_;
  MachineMemory machine_;  // as of looked_
  TimePoint looked_{};
  TimePoint next_look_{};
  Governor governor_;
};

}  // namespace flyball::fleet
