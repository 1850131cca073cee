#include "daemon/calibrate/unmeasured.hpp"

#include <string>

#include "daemon/fleet/pools.hpp"

namespace flyball::calibrate {

std::vector<IdleRefresh::Work> unmeasured(const config::Config& config, const measure::Book& measured,
                                          std::span<const measure::Engine> engines,
                                          const std::vector<fleet::DeviceMemory>& devices,
                                          const fleet::MemoryStatus& memory, std::int64_t until) {
  std::vector<IdleRefresh::Work> out;
  for (const config::ModelEntry& model : config.models)
    for (const measure::Engine& engine : engines) {
      if (measured.is_measured(model.id, engine.backend, until)) continue;
      const std::size_t pool = fleet::pool_of(engine.backend, devices);
      Measuring measuring = measuring_of(config, &model, engine, pool != fleet::kMachinePool);
      measuring.engine.memory_capacity = memory.pools.at(fleet::kMachinePool).most_for_one;
      measuring.quick = true;
      std::string as = "of " + std::to_string(memory.pools.at(pool).most_for_one) + " bytes";
      for (const std::string& word : worker::engine_words(measuring.engine)) as += " " + word;
      out.push_back({{{model.id, engine.backend}, std::move(as)}, std::move(measuring), model, engine});
    }
  return out;
}

std::vector<IdleRefresh::Work> unmeasured_ceilings(const config::Config& config,
                                                   const measure::Book& measured,
                                                   std::span<const measure::Engine> engines,
                                                   const std::vector<fleet::DeviceMemory>& devices,
                                                   std::int64_t until) {
  std::vector<IdleRefresh::Work> out;
  for (const measure::Engine& engine : engines) {
    if (engine.device_ids.empty() || measured.knows_ceilings(engine.backend, until)) continue;
    const bool own_memory = fleet::pool_of(engine.backend, devices) != fleet::kMachinePool;
    Measuring measuring = measuring_of(config, nullptr, engine, own_memory);
    out.push_back({{{"", engine.backend}, "of " + engine.device + " by " + engine.driver},
                   std::move(measuring),
                   {},
                   engine});
  }
  return out;
}

}  // namespace flyball::calibrate
