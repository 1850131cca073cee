#include "daemon/cli/plan_together.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/device/memory.hpp"
#include "config/app_manifest.hpp"
#include "daemon/cli/engine_need.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/fleet/pools.hpp"
#include "daemon/fleet/together.hpp"
#include "daemon/probe/device_memory.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/probe/model_files.hpp"
#include "daemon/probe/probe.hpp"
#include "daemon/route/preload.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using fleet::FitBeside;
using fleet::MemoryPool;
using fleet::PlannedModel;
using nlohmann::ordered_json;

struct JointPlan {
  std::vector<MemoryPool> pools;
  std::vector<PlannedModel> models;
  fleet::Together together;
};

Result<JointPlan> read_joint_plan(const std::string& path) {
  const auto files = settings::config_and_policy(path, "");
  if (!files) return pass(files);
  const config::Config& config = files->config;
  const auto apps = config::apps_of(config);
  if (!apps) return pass(apps);
  const probe::HardwareReport report = probe::probe_hardware();
  const auto devices = probe::device_memory(report, probe::opened_devices(report, config.devices));
  const policy::Facts hardware = probe::facts_of(report, config.devices, files->tree.targets);
  JointPlan out;
  out.pools = fleet::memory_pools(config.memory, device::total_memory(), devices);
  for (const config::ModelEntry& entry : config.models) {
    const auto file = open_model_file(entry);
    if (!file) {
      Error error = file.error();
      error.message = "models." + entry.id + ": " + error.message;
      return std::unexpected(std::move(error));
    }
    const BackendInfo info = probe::info_of(**file);
    for (const std::string& backend :
         route::preload_targets(files->tree, hardware, *apps, entry, {}, &info, {}, std::time(nullptr))) {
      const std::size_t pool = fleet::pool_of(backend, devices);
      const auto need = need_on(entry, **file, backend, pool != fleet::kMachinePool);
      if (!need) return pass(need);
      const bool kept = files->tree.targets->find(backend)->settings.keep_loaded;
      out.models.push_back({entry.id, backend, pool, *need, entry.preload || entry.pin || kept, entry.group,
                            fleet::most_of(backend, config.memory, devices)});
    }
  }
  out.together = fleet::fit_together(out.pools, out.models);
  return out;
}

std::string name_of(const PlannedModel& model) {
  return model.model + " on " + model.backend;
}

std::string names_of(const JointPlan& t, const std::vector<std::size_t>& models) {
  std::string names;
  for (const std::size_t j : models) names += (names.empty() ? "" : ", ") + name_of(t.models[j]);
  return names;
}

// "ends chat on cpu", "ends those without a request for longest, of: a on cpu, b on cpu (1 GiB are missing)".
std::string ends_text(const JointPlan& t, std::size_t i) {
  const FitBeside& fit = t.together.fits[i];
  if (fit.never)
    return fit.missing > 0 ? "is never loaded: " + size_text(fit.missing) + " are missing"
                           : "is never loaded: another model of its group is pinned";
  std::string out;
  if (!fit.group_ends.empty()) out = "ends " + names_of(t, fit.group_ends) + " of its group";
  if (fit.may_end.empty()) return out.empty() ? "ends none" : out;
  out += (out.empty() ? "ends " : ", and ");
  if (fit.may_end.size() > 1) out += "those without a request for longest, of: ";
  return out + names_of(t, fit.may_end) + " (" + size_text(fit.missing) + " are missing)";
}

void print_joint_text(const JointPlan& t) {
  for (std::size_t p = 0; p < t.pools.size(); ++p) {
    const std::uint64_t least = t.together.at_least[p], room = t.pools[p].capacity;
    if (least == 0) continue;
    std::printf("%s, %s for engines: %s\n", fleet::memory_of(t.pools[p]).c_str(), size_text(room).c_str(),
                least <= room
                    ? ("all fit together, with at least " + size_text(least)).c_str()
                    : ("they do not fit together, with at least " + size_text(least)).c_str());
    for (std::size_t i = 0; i < t.models.size(); ++i) {
      const PlannedModel& model = t.models[i];
      if (model.pool != p) continue;
      std::printf("  %-24s %9s weights, %9s KV of one sequence (of all %s)%s: %s\n", name_of(model).c_str(),
                  size_text(model.need.weight_bytes).c_str(), size_text(model.need.least_kv_bytes).c_str(),
                  size_text(model.need.kv_bytes).c_str(), model.pinned ? ", pinned" : "",
                  ends_text(t, i).c_str());
    }
  }
}

void print_joint_json(const JointPlan& t) {
  ordered_json out{{"schema", "flyball.together/v1"}, {"pools", ordered_json::array()}};
  for (std::size_t p = 0; p < t.pools.size(); ++p) {
    ordered_json pool{{"memory", t.pools[p].name},
                      {"bytes", t.pools[p].capacity},
                      {"least_bytes", t.together.at_least[p]},
                      {"fit_together", t.together.at_least[p] <= t.pools[p].capacity},
                      {"models", ordered_json::array()}};
    for (std::size_t i = 0; i < t.models.size(); ++i) {
      const PlannedModel& model = t.models[i];
      if (model.pool != p) continue;
      const FitBeside& fit = t.together.fits[i];
      const auto listed = [&](const std::vector<std::size_t>& models) {
        ordered_json list = ordered_json::array();
        for (const std::size_t j : models)
          list.push_back({{"model", t.models[j].model}, {"backend", t.models[j].backend}});
        return list;
      };
      pool["models"].push_back({{"model", model.model},
                                {"backend", model.backend},
                                {"pinned", model.pinned},
                                {"weight_bytes", model.need.weight_bytes},
                                {"scratch_bytes", model.need.scratch_bytes},
                                {"least_kv_bytes", model.need.least_kv_bytes},
                                {"kv_bytes", model.need.kv_bytes},
                                {"fits", !fit.never},
                                {"missing_bytes", fit.missing},
                                {"may_end", listed(fit.may_end)},
                                {"group_ends", listed(fit.group_ends)}});
    }
    out["pools"].push_back(std::move(pool));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

int plan_together(const std::string& path, bool as_json) {
  const auto plan = read_joint_plan(path);
  if (!plan) return report(plan.error());
  if (as_json)
    print_joint_json(*plan);
  else
    print_joint_text(*plan);
  return std::ranges::any_of(plan->together.fits, &FitBeside::never) ? kFailed : kOk;
}

}  // namespace flyball::cli
