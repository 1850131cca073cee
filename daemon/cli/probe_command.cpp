// `flyball probe`: what this machine is, as the policy will see it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <ctime>
#include <memory>

#include <nlohmann/json.hpp>

#include "backends/opencl/tuning_db.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/probe/probe.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

constexpr const config::EngineKind& kTuned = config::kOpenCl;  // the kind that `flyball tune` is about

struct ProbeOptions {
  bool json = false;
  std::string child;
  std::uint32_t patience_ms = 20'000;
};

std::string fact_text(const policy::FactValue& value) {
  const nlohmann::json json = std::visit([](const auto& v) { return nlohmann::json(v); }, value);
  return json.is_string() ? json.get<std::string>() : json.dump();
}

Result<opencl::TuningDb> tuning_of(const DeviceReport& device) {
  return opencl::load_tuning(opencl::tuning_directory(settings::served_cache_dir()),
                             {device.name, device.driver}, nullptr);
}

// "tuned 2026-11-21 09:00 UTC, 12 products"
std::string tuning_text(const DeviceReport& device) {
  const auto db = tuning_of(device);
  if (!db) return "not tuned: " + describe(db.error());
  if (db->tuned_at == 0) return "not tuned (flyball tune)";
  const std::time_t at = db->tuned_at;
  std::tm utc{};
  char date[64] = "";
  if (gmtime_r(&at, &utc) != nullptr) std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  return "tuned " + std::string(date) + ", " + std::to_string(db->table.tuned().size()) +
         " products faster than shipped";
}

nlohmann::json tuning_json(const DeviceReport& device) {
  const auto db = tuning_of(device);
  if (!db) return {{"error", describe(db.error())}};
  return {{"tuned_at", db->tuned_at}, {"products", db->table.tuned().size()}};
}

int probe(const ProbeOptions& options) {
  if (!options.child.empty())
    return probe::run_probe_child(options.child, std::chrono::milliseconds(options.patience_ms));
  const probe::HardwareReport report = probe::probe_hardware();
  // The operator's choice of device counts here as well; a configuration that does not load is `check`'s
  // matter.
  const auto config = settings::config_at(settings::find_config());
  const policy::Facts facts =
      probe::facts_of(report, config ? config->devices : config::PerKind<config::DeviceNames>());
  const auto catalogue = facts.targets()->facts();
  const std::vector<DeviceReport>& tuned_devices = report.devices[kTuned].devices;
  if (options.json) {
    nlohmann::json out = probe::to_json(report);
    nlohmann::json& tunable = out[std::string(kTuned.id)]["devices"];
    for (std::size_t i = 0; i < tuned_devices.size(); ++i)
      tunable[i]["tuning"] = tuning_json(tuned_devices[i]);
    nlohmann::json& rows = out["facts"] = nlohmann::json::object();
    for (std::size_t i = 0; i < catalogue.size(); ++i)
      if (const policy::Fact* fact = facts.get(static_cast<policy::FactId>(i)))
        rows[std::string(catalogue[i].name)] =
            std::visit([](const auto& v) { return nlohmann::json(v); }, fact->value);
    std::printf("%s\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return kOk;
  }
  std::printf("%s", probe::describe(report).c_str());
  for (const DeviceReport& device : tuned_devices)
    std::printf("%-10s %s: %s\n", std::string(kTuned.id).c_str(), device.name.c_str(),
                tuning_text(device).c_str());
  std::printf("\nfacts for the policy\n");
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const policy::Fact* fact = facts.get(static_cast<policy::FactId>(i));
    if (!fact) continue;
    const std::string unit(catalogue[i].unit);
    std::printf("  %-34s %s%s%s\n", std::string(catalogue[i].name).c_str(), fact_text(fact->value).c_str(),
                unit.empty() ? "" : " ", unit.c_str());
  }
  return kOk;
}

}  // namespace

void add_probe_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ProbeOptions>();
  CLI::App* command =
      app.add_subcommand("probe", "What this machine is: processor, memory bandwidth, devices that compute");
  command->add_flag("--json", options->json, "as one JSON document");
  command
      ->add_option("--child", options->child,
                   "ask for the devices of one engine kind and print the report; how `probe` runs itself")
      ->check(CLI::IsMember(config::engine_ids(config::KindFilter::with_devices)))
      ->group("");
  command->add_option("--patience-ms", options->patience_ms, "what the child may take")
      ->check(whole_number(1, 600'000))
      ->group("");
  command->footer(
      "Examples:\n"
      "  flyball probe                 devices, and the facts a policy may ask for\n"
      "  flyball probe --json\n"
      "\n"
      "A device counts when it ran a small kernel and the answer was right. Drivers run in a child process: "
      "one that\n"
      "crashes or hangs is reported, and nothing else happens.");
  command->callback([options, &exit_code] { exit_code = probe(*options); });
}

}  // namespace flyball::cli
