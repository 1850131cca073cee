#include "daemon/cli/engine_need.hpp"

#include <algorithm>
#include <memory>

#include "backends/device/memory.hpp"
#include "backends/local/predict.hpp"
#include "backends/model/embedded_demo.hpp"
#include "config/engine_kinds.hpp"
#include "config/units.hpp"
#include "daemon/fleet/pools.hpp"
#include "daemon/probe/device_memory.hpp"
#include "daemon/probe/hardware_facts.hpp"

namespace flyball::cli {
namespace {

bool has_devices(const policy::TargetInstance& engine) {
  const config::EngineKind* const kind = config::find_engine_kind(engine.kind);
  return kind != nullptr && kind->has_devices();
}

std::string place_of(const policy::Tree& tree, const std::string& profile) {
  const auto at = std::ranges::find(tree.profiles, profile, &policy::Profile::id);
  return tree.file + ":" + std::to_string(at->line) + ":" + std::to_string(at->column);
}

}  // namespace

Result<std::shared_ptr<const model::ModelFile>> open_model_file(const config::ModelEntry& model) {
  auto file = model.embedded ? model::ModelFile::from_bytes(model::embedded_demo_model())
                             : model::ModelFile::open(model.path);
  if (!file) return pass(file);
  return std::shared_ptr<const model::ModelFile>(std::move(*file));
}

Result<MemoryNeed> need_on(const config::ModelEntry& model, const model::ModelFile& file,
                           const std::string& backend, bool own_memory) {
  local::LocalBackendOptions options;
  options.backend = config::kind_of(backend);
  options.threads = model.threads;
  options.expert_bytes = model.expert_bytes;
  options.context = model.context;
  options.max_sequences = model.max_sequences;
  options.kv_type = model.kv_type;
  return local::predict_memory(file, options, own_memory);
}

std::vector<policy::LintFinding> crowded_engines(const config::Config& config, const policy::Tree& tree,
                                                 Hardware& hardware) {
  std::vector<policy::LintFinding> out;
  std::vector<const policy::TargetInstance*> own;
  for (const policy::TargetInstance& instance : tree.targets->instances())
    if (instance.is_own_engine()) own.push_back(&instance);
  if (own.empty()) return out;
  std::vector<fleet::DeviceMemory> devices;
  if (std::ranges::any_of(own, [](const auto* engine) { return has_devices(*engine); }))
    devices =
        probe::device_memory(hardware.report(), probe::opened_devices(hardware.report(), config.devices));
  const auto pools = fleet::memory_pools(config.memory, device::total_memory(), devices);
  for (const config::ModelEntry& model : config.models) {
    const auto file = open_model_file(model);
    if (!file) continue;  // a finding of its own
    for (const policy::TargetInstance* engine : own) {
      const std::size_t pool = fleet::pool_of(engine->id, devices);
      const auto need = need_on(model, **file, engine->id, pool != fleet::kMachinePool);
      if (!need) continue;
      const std::uint64_t each = need->least_bytes(), room = pools[pool].capacity;
      if (each > room || each <= room - each) continue;  // alone too large: that is the model's matter
      const auto sizes = config::sizes_to_compare({each, 2 * each, room});
      out.push_back({policy::LintFinding::Level::warning,
                     "profile \"" + engine->profile + "\": model " + model.id + " needs " + sizes[0] +
                         " on " + engine->kind + " and as much again on " + engine->id + ", " + sizes[1] +
                         " together, and engines have " + sizes[2] + " of " + pools[pool].name +
                         " memory: one ends for the other",
                     place_of(tree, engine->profile)});
    }
  }
  return out;
}

}  // namespace flyball::cli
