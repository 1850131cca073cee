// `flyball calibrate`: measures the configured models on the engines of this machine, and keeps the figures
// for the policy.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "daemon/calibrate/measurements.hpp"
#include "daemon/calibrate/measuring.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/measure/measured_store.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/store/database.hpp"
#include "daemon/store/state_lock.hpp"

namespace flyball::cli {
namespace {

using measure::Figure;
using measure::Kind;
using nlohmann::ordered_json;

struct CalibrateOptions {
  std::string config;
  std::vector<std::string> models, backends{"all"};
  bool quick = false, json = false;
};

// One model on one engine.
struct Run {
  std::string model;
  measure::Subject subject;
  std::vector<Figure> figures;
  std::optional<Error> refused;
};

double value_of(const std::vector<Figure>& figures, Kind kind) {
  const auto it = std::ranges::find(figures, kind, &Figure::kind);
  return it == figures.end() ? 0 : it->value;
}

void print_run(const Run& run) {
  std::printf("%s on %s: %s\n", run.model.c_str(), run.subject.backend.c_str(), run.subject.device.c_str());
  if (run.refused) {
    std::printf("  not measured: %s\n", describe(*run.refused).c_str());
    return;
  }
  const double bytes = value_of(run.figures, Kind::weight_bytes) + value_of(run.figures, Kind::kv_bytes) +
                       value_of(run.figures, Kind::scratch_bytes);
  std::printf("  loaded in %.0f ms, %s\n", value_of(run.figures, Kind::load_ms),
              size_text(static_cast<std::uint64_t>(bytes)).c_str());
  for (const Figure& f : run.figures) {
    if (f.kind == Kind::prefill_tps) {
      const auto first = measure::figure_at(run.figures, Kind::ttft_ms, f.at, f.measured_at);
      std::printf("  prompt of %4u tokens: %.1f tok/s, first token after %.1f ms\n", f.at, f.value,
                  first ? first->value : 0.0);
    }
    if (f.kind == Kind::decode_tps)
      std::printf("  %2u %s %.1f tok/s\n", f.at, f.at == 1 ? "stream: " : "streams:", f.value);
    if (f.kind == Kind::watts) std::printf("  %.1f W of the processor meanwhile\n", f.value);
  }
  std::fflush(stdout);
}

void print_json(const std::vector<Run>& runs) {
  ordered_json out = ordered_json::array();
  for (const Run& run : runs) {
    ordered_json one{
        {"model", run.model},           {"digest", run.subject.model},  {"backend", run.subject.backend},
        {"device", run.subject.device}, {"driver", run.subject.driver}, {"setup", run.subject.setup}};
    if (run.refused)
      one["error"] = {{"code", to_string(run.refused->code)}, {"message", run.refused->message}};
    one["figures"] = ordered_json::array();
    for (const Figure& f : run.figures)
      one["figures"].push_back({{"figure", measure::to_string(f.kind)}, {"at", f.at}, {"value", f.value}});
    out.push_back(std::move(one));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

Result<std::vector<const config::ModelEntry*>> models_of(const config::Config& config,
                                                         const std::string& path, const CalibrateOptions& o) {
  std::vector<const config::ModelEntry*> out;
  std::vector<std::string_view> ids;
  for (const config::ModelEntry& model : config.models) ids.push_back(model.id);
  for (const std::string& name : o.models) {
    const auto it = std::ranges::find(config.models, name, &config::ModelEntry::id);
    if (it == config.models.end())
      return fail(ErrorCode::model_not_found, "there is no model " + config::not_among(name, ids), {},
                  path.empty() ? settings::kShippedConfig : path);
    out.push_back(&*it);
  }
  if (out.empty())
    for (const config::ModelEntry& model : config.models) out.push_back(&model);
  return out;
}

Result<store::Database> open_store(const config::Config& config) {
  const auto directory = config.state_dir.empty() ? settings::default_state_dir() : config.state_dir;
  if (directory.empty())
    return fail(ErrorCode::io_error, "No state directory is known to keep the figures in: set state_dir.");
  std::error_code error;
  if (!std::filesystem::create_directories(directory, error) && error)
    return fail(ErrorCode::io_error, "The state directory cannot be made: " + error.message() + ".", {},
                directory.string());
  return store::Database::open(store::file_in(directory), store::Database::Access::read_write);
}

// What its devices can do, for models that are not measured on them. The processor's the probe measures at
// every start. What cannot be measured is said, and the models' own measurements go on. io_error: of the
// store.
Result<void> keep_ceilings(const measure::Engine& engine, const calibrate::Measuring& measuring, bool quiet,
                           store::Database& database) {
  measure::Ceilings ceilings = engine.ceilings;
  if (!engine.device_ids.empty()) {
    const measure::Subject subject = measure::subject_of(engine);
    const auto figures = calibrate::measure_in_child(measuring, subject);
    if (!figures) {
      std::fprintf(stderr, "what %s can do is not known: %s\n", engine.device.c_str(),
                   describe(figures.error()).c_str());
      return {};
    }
    ceilings = measure::ceilings_of(*figures, std::time(nullptr));
    if (auto ok = measure::save(database, subject, *figures); !ok) return pass(ok);
  }
  if (!quiet && ceilings.read_gbps > 0)
    std::printf("%s: reads %.1f GB/s, computes %.0f GFLOP/s\n", engine.backend.c_str(), ceilings.read_gbps,
                ceilings.float_gops);
  return {};
}

int calibrate(const CalibrateOptions& o) {
  const std::filesystem::path path =
      o.config.empty() ? settings::find_config() : std::filesystem::path(o.config);
  const auto config = settings::config_at(path);
  if (!config) return report(config.error());
  const auto models = models_of(*config, path.string(), o);
  if (!models) return report(models.error());
  auto database = open_store(*config);
  if (!database) return report(database.error());
  if (const auto daemon = store::running_daemon(database->file().parent_path()))
    std::fprintf(stderr,
                 "flyball: a daemon runs on this machine (%s): its requests and these measurements slow each other\n",
                 daemon->c_str());
  const probe::HardwareReport hardware = probe::probe_hardware();
  const auto wanted = [&](const std::string& backend) {
    return std::ranges::any_of(o.backends, [&](const auto& b) { return b == kAllEngines || b == backend; });
  };
  const std::vector<measure::Engine> engines = calibrate::engines_of(hardware, *config);
  const auto own_memory = [&](const measure::Engine& engine) {
    const DeviceProbe& probe = hardware.devices[*config::find_engine_kind(engine.backend)];
    return !engine.device_ids.empty() && std::ranges::all_of(engine.device_ids, [&](const std::string& id) {
      return probe::has_own_memory(probe, id);
    });
  };
  for (const measure::Engine& engine : engines)
    if (wanted(engine.backend))
      if (auto ok =
              keep_ceilings(engine, calibrate::measuring_of(*config, nullptr, engine, own_memory(engine)),
                            o.json, *database);
          !ok)
        return report(ok.error());
  std::vector<Run> runs;
  for (const config::ModelEntry* model : *models) {
    const std::string digest = measure::model_digest(*model);
    for (const measure::Engine& engine : engines) {
      if (!wanted(engine.backend)) continue;
      Run& run = runs.emplace_back(Run{model->id, measure::subject_of(engine, digest, *model), {}, {}});
      if (!o.json) std::fprintf(stderr, "measuring %s on %s\n", model->id.c_str(), engine.backend.c_str());
      calibrate::Measuring measuring = calibrate::measuring_of(*config, model, engine, own_memory(engine));
      measuring.quick = o.quick;
      auto figures = calibrate::measure_in_child(measuring, run.subject);
      if (figures)
        run.figures = std::move(*figures);
      else
        run.refused = std::move(figures.error());
      if (!o.json) print_run(run);
      if (run.refused) continue;
      if (auto ok = measure::save(*database, run.subject, run.figures); !ok) return report(ok.error());
    }
  }
  if (o.json) print_json(runs);
  if (runs.empty())
    return report(
        Error{ErrorCode::model_unavailable, "None of these engines has a device here.", "backends", ""});
  if (std::ranges::all_of(runs, [](const Run& run) { return run.refused.has_value(); }))
    return exit_code_for(*runs.front().refused);
  if (!o.json)
    std::printf("kept in %s; a running daemon takes it up at a reload (SIGHUP)\n", database->file().c_str());
  return kOk;
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<CalibrateOptions>();
  CLI::App* c = app.add_subcommand("calibrate", "Measure models on this machine's engines, for the policy");
  c->add_option("models", o->models, "Ids of config.yaml; without any, all of its models");
  c->add_option("--config", o->config, "config.yaml (default: the one `serve` would take)");
  c->add_option("--backends", o->backends, "These engines alone: names with commas, or all")
      ->check(engine_or_all())
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  c->add_flag("--quick", o->quick, "Fewer lengths and streams, each once: seconds instead of minutes");
  c->add_flag("--json", o->json, "As JSON");
  c->footer(
      "Examples:\n"
      "  flyball calibrate\n"
      "  flyball calibrate demo --backends cpu,vulkan --quick\n"
      "\n"
      "Engines run one after the other, each in a process of its own: calibrate on a machine that does "
      "nothing else.");
  c->callback([o, &exit_code] { exit_code = calibrate(*o); });
}

}  // namespace flyball::cli
