// `flyball check`: findings in config.yaml, policy.yaml and the manifests, with file, line and column, and
// in the model files they name.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>

#include "backends/graph/memory_plan.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/identity.hpp"
#include "backends/model/model_file.hpp"
#include "config/yaml.hpp"
#include "config/yaml_folder.hpp"
#include "daemon/calibrate/measurements.hpp"
#include "daemon/cli/check_apps.hpp"
#include "daemon/cli/check_machine.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/engine_need.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/kept_tokens.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/store/database.hpp"
#include "policy/reach.hpp"

namespace flyball::cli {
namespace {

struct CheckOptions {
  std::string config, policy, apps, schema;
};

// Findings as they come, and what they sum up to.
class Findings {
 public:
  void error(const Error& e) {
    std::printf("%s%serror: %s\n", e.where.c_str(), e.where.empty() ? "" : ": ", e.message.c_str());
    if (errors_++ == 0) exit_code_ = exit_code_for(e);
  }
  void errors(const std::vector<Error>& all) {
    for (const Error& e : all) error(e);
  }
  void warning(const policy::LintFinding& f) {
    std::printf("%s: warning: %s\n", f.where.c_str(), f.message.c_str());
    ++warnings_;
  }
  void warnings(const std::vector<policy::LintFinding>& all) {
    for (const policy::LintFinding& f : all) warning(f);
  }
  void checked(const std::string& what) { checked_ += (checked_.empty() ? "" : ", ") + what; }

  int finish() const {
    std::printf("%s: %zu error%s, %zu warning%s\n", checked_.c_str(), errors_, errors_ == 1 ? "" : "s",
                warnings_, warnings_ == 1 ? "" : "s");
    return exit_code_;
  }

 private:
  std::size_t errors_ = 0, warnings_ = 0;
  std::string checked_;
  int exit_code_ = kOk;
};

// config: of the models that its engines load; nullopt: their memory is not asked for.
void check_policy(const std::string& name, const Result<std::string>& text,
                  const std::optional<config::Config>& config, Hardware& hardware, Findings& findings) {
  findings.checked(name);
  if (!text) return findings.error(text.error());
  const auto tree = policy::parse_policy_all(*text, name);
  if (!tree) return findings.errors(tree.error());
  for (const policy::Profile& profile : tree->profiles)
    std::printf("%s:%u:%u: profile %s sets %s\n", name.c_str(), profile.line, profile.column,
                profile.id.c_str(), policy::to_text(profile).c_str());
  std::set<std::string> named;
  for (const policy::LintFinding& f : policy::lint(*tree)) {
    findings.warning(f);
    named.insert(f.where);
  }
  for (const policy::LintFinding& f :
       policy::dead_ends(*tree))  // lint's reason, where it has one, is plainer
    if (!named.contains(f.where)) findings.warning(f);
  if (config) findings.warnings(crowded_engines(*config, *tree, hardware));
}

// Those of `dir`, or "" for the configuration's.
std::optional<std::vector<config::AppManifest>> check_apps(const std::filesystem::path& dir,
                                                           const std::optional<config::Config>& config,
                                                           Findings& findings) {
  const std::filesystem::path& from = dir.empty() ? config->apps_dir : dir;
  findings.checked(from.empty() ? "<shipped example app>" : from.string());
  auto apps = dir.empty() ? config::apps_of_all(*config) : config::load_apps_all(dir);
  if (apps) return std::move(*apps);
  findings.errors(apps.error());
  return std::nullopt;
}

// Files that lie where the daemon looks and that it passes over: whoever put them there expects it to read
// them.
void warn_of_ignored(const std::filesystem::path& folder, Findings& findings) {
  const auto found = config::read_yaml_folder(folder);
  if (!found) return;
  for (const std::filesystem::path& one : found->ignored)
    findings.warning({policy::LintFinding::Level::warning,
                      "not read: only files of " + folder.string() + " called *.yaml or *.yml are",
                      one.string()});
}

// That a model's engine will start: the file is one, has the context asked for, and its KV can be kept so.
void check_model(const config::Config& config, const config::ModelEntry& entry, Findings& findings,
                 probe::ModelFileInfos& files) {
  const std::string name = "models." + entry.id;
  const auto error = [&](const char* key, const Error& e) {
    const std::string file = entry.embedded ? "" : entry.path.string() + ": ";
    findings.error({ErrorCode::config_invalid, name + ": " + file + e.message, {}, config.place(name + key)});
  };
  const auto file = entry.embedded ? model::ModelFile::from_bytes(model::embedded_demo_model())
                                   : model::ModelFile::open(entry.path);
  if (!file) return error(".path", file.error());
  files[entry.id] = probe::info_of(**file);
  if (!entry.embedded)
    std::printf("%s: model %s has the digest %.12s\n", config.place(name).c_str(), entry.id.c_str(),
                model::digest_of(**file).c_str());
  if (std::error_code ignored; !entry.sha256.empty() && std::filesystem::is_directory(entry.path, ignored))
    error(".sha256",
          {ErrorCode::config_invalid, "it is a directory, which has no SHA-256 of its own", {}, {}});
  if (const auto context = graph::serving_context(entry.context, (*file)->config()); !context)
    error(".context", context.error());
  if (const auto kv_type = graph::kv_type(entry.kv_type, (*file)->config()); !kv_type)
    error(".kv_type", kv_type.error());
}

// No finding: predictions stand in for measurements. Says nothing to a user who cannot read the daemon's
// database, as that of a service is: it may hold all measurements.
void tell_unmeasured(const config::Config& config, Hardware& hardware) {
  const auto state_dir = config.state_dir.empty() ? settings::default_state_dir() : config.state_dir;
  if (state_dir.empty() || ::access(store::file_in(state_dir).c_str(), R_OK) != 0) return;
  const auto engines = calibrate::engines_of(hardware.report(), config);
  const auto measured = calibrate::measured_book(config, engines, {});
  if (!measured) return;  // a database that cannot be read is the daemon's to tell
  for (const config::ModelEntry& model : config.models) {
    std::string where;
    for (const std::string& backend : calibrate::unmeasured_on(*measured, model.id, engines))
      where += (where.empty() ? "" : ", ") + backend;
    if (where.empty()) continue;
    std::printf("%s: model %s is unmeasured on %s: run `flyball calibrate %s`%s\n",
                config.place("models." + model.id).c_str(), model.id.c_str(), where.c_str(), model.id.c_str(),
                config.calibrate.idle.count() > 0 ? ", or leave the machine idle" : "");
  }
}

int check(const CheckOptions& options) {
  Findings findings;
  // Naming a policy or a folder of manifests alone asks about that alone.
  const bool only_named = options.config.empty() && (!options.policy.empty() || !options.apps.empty());
  std::optional<config::Config> config;
  std::filesystem::path path;
  probe::ModelFileInfos files;
  Hardware hardware;
  if (!only_named) {
    path = options.config.empty() ? settings::find_config() : std::filesystem::path(options.config);
    findings.checked(path.empty() ? settings::kShippedConfig : path.string());
    if (path.empty()) {
      auto shipped = settings::config_at({});
      if (shipped)
        config = std::move(*shipped);
      else
        findings.error(shipped.error());
    } else {
      auto loaded = config::load_config_all(path);
      if (loaded)
        config = std::move(*loaded);
      else
        findings.errors(loaded.error());
      warn_of_ignored(path.parent_path() / "config.d", findings);
      if (const auto unused = settings::unused_config(path); !unused.empty())
        findings.warning(
            {policy::LintFinding::Level::warning, "not read: " + path.string() + " is", unused.string()});
    }
  }
  if (config) {
    for (const config::ModelEntry& model : config->models) check_model(*config, model, findings, files);
    findings.warnings(machine_warnings(*config, files, hardware));
    tell_unmeasured(*config, hardware);
    if (const auto unused = settings::unused_policy(path, *config); !unused.empty() && options.policy.empty())
      findings.warning({policy::LintFinding::Level::warning, settings::unused_policy_text(unused, *config),
                        unused.string()});
  }
  if (!options.policy.empty())
    check_policy(options.policy, config::read_operators_file(options.policy), config, hardware, findings);
  else if (config)
    // The shipped policy asks whether an engine of its own fits before it uses one.
    check_policy(settings::policy_name(*config), settings::policy_text(*config),
                 config->policy_path.empty() ? std::nullopt : config, hardware, findings);
  if (!options.apps.empty() || config) {
    const auto apps = check_apps(options.apps, config, findings);
    const std::string folder = options.apps.empty() ? config->apps_dir.string() : options.apps;
    if (apps && config) {
      findings.errors(config::cross_check(*config, *apps));
      const KeptFindings kept = check_kept_prefixes(*config, *apps, files);
      findings.errors(kept.errors);
      findings.warnings(kept.warnings);
      findings.warnings(unreachable_apps(*config, *apps, folder));
      findings.warnings(unattainable_apps(*config, *apps, files, hardware));
    }
    if (apps) findings.warnings(unserved_apps(*apps));
    if (!folder.empty()) warn_of_ignored(folder, findings);
  }
  return findings.finish();
}

int print_schema(const std::string& which) {
  const std::string text = which == "config"   ? config::config_schema()
                           : which == "policy" ? policy::policy_schema()
                                               : config::app_schema();
  return std::fputs(text.c_str(), stdout) < 0 ? kIo : kOk;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command =
      app.add_subcommand("check", "Check config.yaml, policy.yaml, app manifests and the model files");
  command->add_option(
      "--config,config", options->config,
      "config.yaml, with the policy and the manifests it names (default: the one `serve` would take)");
  command->add_option("--policy", options->policy, "check this policy");
  command->add_option("--apps", options->apps, "check the manifests in this folder");
  command
      ->add_option("--print-schema", options->schema,
                   "print a JSON Schema for editors instead: config, policy or app")
      ->check(CLI::IsMember({"config", "policy", "app"}));
  command->footer(
      "Examples:\n"
      "  flyball check                                  everything that `flyball serve` would read\n"
      "  flyball check /etc/flyball/config.yaml\n"
      "  flyball check --policy policy.yaml             that file alone\n"
      "  flyball check --print-schema policy > policy.schema.json\n"
      "\n"
      "Exit code 78 where an error is found, a file that cannot be read among them; warnings alone give 0.");
  command->callback([options, &exit_code] {
    exit_code = options->schema.empty() ? check(*options) : print_schema(options->schema);
  });
}

}  // namespace flyball::cli
