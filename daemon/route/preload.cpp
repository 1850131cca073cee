#include "daemon/route/preload.hpp"

#include <algorithm>

#include "config/app_models.hpp"
#include "config/engine_kinds.hpp"
#include "daemon/route/facts.hpp"
#include "policy/decide.hpp"

namespace flyball::route {

std::vector<std::string> preload_targets(const policy::Tree& tree, const policy::Facts& hardware,
                                         std::span<const config::AppManifest> apps,
                                         const config::ModelEntry& model, const fleet::MemoryStatus& memory,
                                         const BackendInfo* file, const measure::Book& measured,
                                         std::int64_t now) {
  RequestTraits chat;
  chat.operation = "chat";
  const policy::Facts here = policy::in_catalogue(hardware, tree.targets);
  std::vector<std::string> engines;
  for (const config::AppManifest& app : apps) {
    if (!config::may_use(app, model)) continue;
    const policy::Facts facts = gather(here, {}, app, model, chat, {{}, memory}, file, measured, now);
    const policy::Decision decision = policy::decide(tree, facts);
    if (decision.target == nullptr || tree.targets->is_remote(decision.target->backend)) continue;
    if (std::ranges::find(engines, decision.target->backend) == engines.end())
      engines.push_back(decision.target->backend);
  }
  if (engines.empty()) engines.emplace_back(config::kCpu.id);
  return engines;
}

}  // namespace flyball::route
