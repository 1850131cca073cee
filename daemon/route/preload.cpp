#include "daemon/route/preload.hpp"

#include <algorithm>

#include "config/app_models.hpp"
#include "config/engine_kinds.hpp"
#include "daemon/route/facts.hpp"
#include "policy/decide.hpp"

namespace flyball::route {

namespace {

// The engines of this machine to which the policy sends a first chat of each of these apps, each once.
template <class Wanted>
std::vector<std::string> targets_of(const policy::Tree& tree, const policy::Facts& hardware,
                                    std::span<const config::AppManifest> apps,
                                    const config::ModelEntry& model, const fleet::MemoryStatus& memory,
                                    const BackendInfo* file, const measure::Book& measured, std::int64_t now,
                                    Wanted wanted) {
  RequestTraits chat;
  chat.operation = "chat";
  const policy::Facts here = policy::in_catalogue(hardware, tree.targets);
  std::vector<std::string> engines;
  for (const config::AppManifest& app : apps) {
    if (!config::may_use(app, model) || !wanted(app)) continue;
    const policy::Facts facts = gather(here, {}, app, model, chat, {{}, memory}, file, measured, now);
    const policy::Decision decision = policy::decide(tree, facts);
    if (decision.target == nullptr || tree.targets->is_remote(decision.target->backend)) continue;
    if (std::ranges::find(engines, decision.target->backend) == engines.end())
      engines.push_back(decision.target->backend);
  }
  return engines;
}

}  // namespace

std::vector<std::string> preload_targets(const policy::Tree& tree, const policy::Facts& hardware,
                                         std::span<const config::AppManifest> apps,
                                         const config::ModelEntry& model, const fleet::MemoryStatus& memory,
                                         const BackendInfo* file, const measure::Book& measured,
                                         std::int64_t now) {
  auto engines = targets_of(tree, hardware, apps, model, memory, file, measured, now,
                            [](const config::AppManifest&) { return true; });
  if (engines.empty()) engines.emplace_back(config::kCpu.id);
  return engines;
}

std::vector<std::string> critical_targets(const policy::Tree& tree, const policy::Facts& hardware,
                                          std::span<const config::AppManifest> apps,
                                          const config::ModelEntry& model, bool is_default,
                                          const fleet::MemoryStatus& memory, const BackendInfo* file,
                                          const measure::Book& measured, std::int64_t now) {
  auto engines = targets_of(tree, hardware, apps, model, memory, file, measured, now,
                            [&](const config::AppManifest& app) {
                              return app.workload.fixed_critical == true &&
                                     (app.models.size() == 1 || (app.models.empty() && is_default));
                            });
  std::erase_if(engines, [&](const std::string& engine) {
    return !tree.targets->find(engine)->settings.keep_loaded;
  });
  return engines;
}

}  // namespace flyball::route
