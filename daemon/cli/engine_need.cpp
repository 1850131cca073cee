#include "daemon/cli/engine_need.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <span>

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

bool uses(const policy::Rule& rule, std::string_view backend) {
  return std::ranges::any_of(rule.use,
                             [&](const policy::Target& target) { return target.backend == backend; }) ||
         std::ranges::any_of(rule.rules, [&](const policy::Rule& child) { return uses(child, backend); });
}

// The engines of the kinds that have one of their own: these, and the shared ones that a rule uses.
std::vector<const policy::TargetInstance*> engines_beside_each_other(const policy::Tree& tree) {
  std::vector<const policy::TargetInstance*> out;
  std::set<std::string_view> kinds;
  for (const policy::TargetInstance& one : tree.targets->instances())
    if (one.is_own_engine()) kinds.insert(one.kind);
  for (const policy::TargetInstance& one : tree.targets->instances()) {
    if (!kinds.contains(one.kind)) continue;
    const bool used = one.is_own_engine() || uses(tree.fallback, one.id) ||
                      std::ranges::any_of(tree.rules, [&](const auto& rule) { return uses(rule, one.id); });
    if (used) out.push_back(&one);
  }
  return out;
}

struct Holder {
  const policy::TargetInstance* engine = nullptr;
  std::uint64_t bytes = 0;
};

std::string crowded_text(const config::ModelEntry& model, std::span<const Holder> holders, std::uint64_t all,
                         const fleet::MemoryPool& pool) {
  const auto sizes = config::sizes_to_compare({all, pool.capacity});
  std::string each;
  for (std::size_t i = 0; i < holders.size(); ++i)
    each += (i == 0                    ? ""
             : i + 1 == holders.size() ? " and "
                                       : ", ") +
            config::size_text(holders[i].bytes) + " on " + holders[i].engine->id;
  return "model " + model.id + " needs " + each + ", " + sizes[0] + " together, and engines have " +
         sizes[1] + " of " + pool.name + " memory: one ends for another";
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
                           const std::string& backend, bool own_memory,
                           std::optional<std::uint32_t> threads) {
  local::LocalBackendOptions options;
  options.backend = config::kind_of(backend);
  options.threads = threads.value_or(model.threads);
  options.expert_bytes = model.expert_bytes;
  options.context = model.context;
  options.max_sequences = model.max_sequences;
  options.kv_type = model.kv_type;
  return local::predict_memory(file, options, own_memory);
}

std::vector<policy::LintFinding> crowded_engines(const config::Config& config, const policy::Tree& tree,
                                                 Hardware& hardware) {
  std::vector<policy::LintFinding> out;
  const auto engines = engines_beside_each_other(tree);
  if (engines.empty()) return out;
  std::vector<fleet::DeviceMemory> devices;
  if (std::ranges::any_of(engines, [](const auto* engine) { return has_devices(*engine); }))
    devices =
        probe::device_memory(hardware.report(), probe::opened_devices(hardware.report(), config.devices));
  const auto pools = fleet::memory_pools(config.memory, device::total_memory(), devices);
  for (const config::ModelEntry& model : config.models) {
    const auto file = open_model_file(model);
    if (!file) continue;  // a finding of its own
    for (std::size_t pool = 0; pool < pools.size(); ++pool) {
      const std::uint64_t room = pools[pool].capacity;
      std::vector<Holder> holders;
      std::uint64_t all = 0;
      for (const policy::TargetInstance* engine : engines) {
        if (fleet::pool_of(engine->id, devices) != pool) continue;
        const auto need =
            need_on(model, **file, engine->id, pool != fleet::kMachinePool, engine->settings.threads);
        if (!need || need->least_bytes() > room) continue;  // alone too large: that is the model's matter
        holders.push_back({engine, need->least_bytes()});
        all += need->least_bytes();  // each fits the pool, and there are few
      }
      const auto own =
          std::ranges::find_if(holders, [](const Holder& one) { return one.engine->is_own_engine(); });
      if (all <= room || own == holders.end()) continue;
      const std::string& profile = own->engine->profile;
      out.push_back({policy::LintFinding::Level::warning,
                     "profile \"" + profile + "\": " + crowded_text(model, holders, all, pools[pool]),
                     place_of(tree, profile)});
    }
  }
  return out;
}

}  // namespace flyball::cli
