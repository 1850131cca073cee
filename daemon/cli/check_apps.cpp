#include "daemon/cli/check_apps.hpp"

#include <algorithm>
#include <ctime>
#include <optional>

#include "config/app_models.hpp"
#include "config/app_needs.hpp"
#include "config/units.hpp"
#include "daemon/calibrate/measurements.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/route/facts.hpp"

namespace flyball::cli {
namespace {

using Warnings = std::vector<policy::LintFinding>;

void warn(Warnings& out, const std::string& at, const std::string& message) {
  out.push_back({policy::LintFinding::Level::warning, message, at});
}

// The place in the manifest that declares the key, or the manifest's own.
std::string place(const config::AppManifest& app, const std::string& key) {
  const auto at = app.places.find(key);
  return at == app.places.end() ? app.id_at : at->second;
}

// The least time among models and engines, and whose it is.
struct Best {
  double ms = 0;
  std::string whose;

  void take(double other, const std::string& engine, const config::ModelEntry& model) {
    if (!whose.empty() && ms <= other) return;
    ms = other;
    whose = engine + " with the model \"" + model.id + "\"";
  }
};
struct BestTimes {
  Best ttft, tpot;
};

void add_times(const policy::Facts& facts, const config::ModelEntry& model, BestTimes& best) {
  for (const config::EngineKind& kind : config::kEngineKinds) {
    const std::string id(kind.id);
    const auto fact = [&](policy::TargetFact which) {
      return facts.get(facts.targets()->fact_of(id, which));
    };
    if (!facts.is_true(facts.targets()->fact_of(id, policy::TargetFact::available))) continue;
    if (const policy::Fact* const ttft = fact(policy::TargetFact::ttft))
      best.ttft.take(static_cast<double>(std::get<std::int64_t>(ttft->value)), id, model);
    if (const policy::Fact* const tps = fact(policy::TargetFact::decode_tps))
      if (const double rate = std::get<double>(tps->value); rate > 0) best.tpot.take(1e3 / rate, id, model);
  }
}

void check_time(const config::AppManifest& app, const char* key,
                const std::optional<std::chrono::milliseconds>& wanted, const Best& best,
                const std::string& what, Warnings& out) {
  if (!wanted || best.whose.empty() || best.ms <= static_cast<double>(wanted->count())) return;
  warn(out, place(app, key),
       std::string(key) + ": " + std::to_string(wanted->count()) + " ms" + what +
           " cannot be held on this machine: the fastest, " + best.whose + ", takes " +
           config::time_text(static_cast<std::int64_t>(best.ms * 1e3)) +
           " for one request alone, as measured here or predicted");
}

void check_length(const config::AppManifest& app, std::span<const config::ModelEntry* const> models,
                  const probe::ModelFileInfos& files, Warnings& out) {
  const std::uint64_t tokens =
      std::uint64_t{app.workload.prompt_tokens.value_or(0)} + app.workload.output_tokens.value_or(0);
  std::uint32_t most = 0;
  for (const config::ModelEntry* const model : models) {
    const auto file = files.find(model->id);
    const std::uint32_t context =
        route::served_context(*model, file == files.end() ? nullptr : &file->second);
    if (context == 0) return;  // not known
    most = std::max(most, context);
  }
  if (models.empty() || tokens <= most) return;
  warn(out, place(app, "workload.prompt_tokens"),
       "workload.prompt_tokens: prompt and answer come to " + std::to_string(tokens) +
           " tokens, and no model of the app is served with a context of more than " + std::to_string(most) +
           " (models.*.context in config.yaml)");
}

}  // namespace

Warnings unreachable_apps(const config::Config& config, const std::vector<config::AppManifest>& apps,
                          const std::string& folder) {
  Warnings out;
  if (apps.empty()) warn(out, folder, "no manifest: every request is refused (`flyball app new` writes one)");
  for (const config::AppManifest& app : apps)
    if (app.keys.empty() && !app.unix_uid && !(config.loopback_without_key && config.default_app == app.id))
      warn(out, app.id_at,
           "app: no request can act as \"" + app.id +
               "\": it has neither key, key_sha256 nor unix_uid, and requests without a key act as " +
               (config.loopback_without_key ? "\"" + config.default_app + "\"" : "no app"));
  if (!config.loopback_without_key && !config.default_app.empty())
    warn(out, config.place("default_app"),
         "default_app: it means nothing without `loopback_without_key: true`");
  return out;
}

Warnings unserved_apps(const std::vector<config::AppManifest>& apps) {
  Warnings out;
  for (const config::AppManifest& app : apps)
    for (const config::Unserved& one : config::unserved(app)) {
      std::string why = config::sentence(config::capability(one.feature));
      why.pop_back();  // its full stop
      warn(out, one.where, one.declared + ": " + why + " (docs/capabilities.md)");
    }
  return out;
}

Warnings unattainable_apps(const config::Config& config, const std::vector<config::AppManifest>& apps,
                           const probe::ModelFileInfos& files, Hardware& hardware) {
  Warnings out;
  std::optional<policy::Facts> machine;
  measure::Book book;
  for (const config::AppManifest& app : apps) {
    std::vector<const config::ModelEntry*> models;
    for (const config::ModelEntry& model : config.models)
      if (config::may_use(app, model)) models.push_back(&model);
    check_length(app, models, files, out);
    if (!app.slo.ttft && !app.slo.tpot) continue;
    if (!machine) {
      machine = probe::facts_of(hardware.report(), config.devices);
      const auto engines = calibrate::engines_of(hardware.report(), config);
      const measure::BookOptions options{calibrate::sizes_of(config.models, files)};
      // The store of a service may be another user's.
      book = calibrate::measured_book(config, engines, options)
                 .value_or(calibrate::unmeasured_book(config, engines, options));
    }
    config::AppManifest alone = app;  // the least that a request of it takes
    alone.workload.concurrency.reset();
    alone.workload.batch_size.reset();
    BestTimes best;
    for (const config::ModelEntry* const model : models) {
      const auto file = files.find(model->id);
      if (file == files.end()) continue;
      add_times(route::gather(*machine, {}, alone, *model, {}, {}, &file->second, book, std::time(nullptr)),
                *model, best);
    }
    const std::uint32_t prompt = app.workload.prompt_tokens.value_or(measure::Book::kPromptTokens);
    check_time(app, "slo.ttft", app.slo.ttft, best.ttft,
               " to the first token behind a prompt of " + std::to_string(prompt) + " tokens", out);
    check_time(app, "slo.tpot", app.slo.tpot, best.tpot, " for each further token", out);
  }
  return out;
}

}  // namespace flyball::cli
