// `flyball app new NAME`: a manifest with a key of its own, and the command that asks with it.
#include <openssl/sha.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/app_models.hpp"
#include "config/name_list.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/operators_file.hpp"
#include "daemon/cli/running_daemon.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/store/state_lock.hpp"

namespace flyball::cli {
namespace {

// Length of a key. Nobody guesses 256 bits, so their plain SHA-256 in the manifest needs no salt.
constexpr std::size_t kKeyBytes = 32;

struct NewOptions {
  std::string app, kind = "chat", model, config;
  bool json = false;
};

struct NewApp {
  std::filesystem::path manifest, config_file;
  std::string text;  // of the manifest
  std::string key, digest;
  std::string url;                    // where the daemon of this configuration listens
  std::string model;                  // for the first request
  std::optional<std::string> daemon;  // the process that serves this configuration's state directory
};

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

Result<std::string> new_key() {
  std::array<std::uint8_t, kKeyBytes> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(ErrorCode::internal,
                std::string("the system gives no random bytes: ") + std::strerror(errno));
  return "fb-" + hex(bytes);
}

std::string digest_of(const std::string& key) {
  config::Sha256 digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return hex(digest);
}

// A manifest. Words in braces stand for the app's own; no id holds a brace.
constexpr std::string_view kManifest = R"(schema: flyball.app/v1
# docs/manifest.md describes every key, and `flyball check` reads this file.
app: {NAME}

# SHA-256 of the app's key, which was shown once and is kept nowhere. While keys are exchanged this is a list of both
# digests.
key_sha256: {DIGEST}

workload:
  # {CLASSES}:
  # docs/workloads.md says what each of them changes.
  class: {CLASS}
  # A typical request, in tokens, and how many are open at once. The policy does not know what is left out;
  # `flyball app suggest {APP}` prints them as the app's requests were.
  # prompt_tokens: 500
  # output_tokens: 200
  # concurrency: 2

# The models that it may use; without this line all of them.
{MODELS}

# Its prompts never leave this machine, whatever a rule of the policy says.
privacy: local_only

# How fast it needs its first token, and what it may use.
# slo: {ttft: 2s}
# limits: {in_flight: 4, tokens_per_day: 2000000}
)";

std::string manifest_text(const NewOptions& options, const std::string& digest,
                          const config::Config& config) {
  std::string classes;
  for (const std::string_view one : config::workload_classes())
    classes += (classes.empty() ? "" : ", ") + std::string(one);
  const std::string models = options.model.empty() ? "# models: [" + yaml_id(config.models.front().id) + "]"
                                                   : "models: [" + yaml_id(options.model) + "]";
  std::string out(kManifest);
  const auto set = [&](std::string_view word, const std::string& value) {
    out.replace(out.find(word), word.size(), value);
  };
  set("{NAME}", yaml_id(options.app));
  set("{DIGEST}", digest);
  set("{CLASSES}", classes);
  set("{CLASS}", options.kind);
  set("{APP}", options.app);
  set("{MODELS}", models);
  return out;
}

// Checks the app's id and --class, before any file is looked at.
Result<void> check_words(const NewOptions& options) {
  if (auto ok = check_id(options.app, "app"); !ok) return pass(ok);
  const auto classes = config::workload_classes();
  if (std::ranges::find(classes, options.kind) == classes.end())
    return fail(
        ErrorCode::unsupported_value,
        "--class: there is no class " + config::not_among(options.kind, {classes.begin(), classes.end()}));
  return {};
}

// The folder of this configuration's manifests. Where the shipped example app is all that there is, it is
// apps.d beside config.yaml, which has to be made.
std::filesystem::path manifests_of(const config::Config& config, const std::filesystem::path& config_file) {
  return config.apps_dir.empty() ? config_file.parent_path() / "apps.d" : config.apps_dir;
}

// Nothing is written yet: the apps as they would be with the new one.
Result<void> check_with_new(const config::Config& config, const config::AppManifest& app,
                            const std::filesystem::path& manifest) {
  std::vector<config::AppManifest> apps;
  if (!config.apps_dir.empty()) {
    auto known = config::apps_of(config);
    if (!known) return pass(known);
    apps = std::move(*known);
  }
  const auto same = std::ranges::find(apps, app.id, &config::AppManifest::id);
  if (same != apps.end())
    return fail(ErrorCode::unsupported_value,
                "the app " + config::quoted(app.id) + " is there already, in " + same->source +
                    ": choose another name or, for a new key, remove that file first");
  apps.push_back(app);
  const auto mistakes = config::cross_check(config, apps);
  if (mistakes.empty()) return {};
  Error error = mistakes.front();
  if (config.apps_dir.empty())
    error.message += ": with " + manifest.parent_path().string() +
                     " the shipped example app is gone; copy config/defaults/apps.d there first";
  return std::unexpected(std::move(error));
}

// The new app, checked beside those that are there. Nothing is written.
Result<NewApp> make_app(const NewOptions& options) {
  if (auto ok = check_words(options); !ok) return pass(ok);
  NewApp out;
  out.config_file = options.config.empty() ? settings::find_config() : std::filesystem::path(options.config);
  if (out.config_file.empty())
    return fail(ErrorCode::io_error,
                "there is no config.yaml, so that the shipped example app is the only one: copy the folder "
                "config/defaults to ~/.config/flyball, or name yours with --config");
  const auto config = settings::config_at(out.config_file);
  if (!config) return pass(config);
  std::vector<std::string_view> models;
  for (const config::ModelEntry& model : config->models) models.push_back(model.id);
  if (!options.model.empty() && std::ranges::none_of(config->models, [&](const config::ModelEntry& model) {
        return config::is_called(model, options.model);
      }))
    return fail(ErrorCode::unsupported_value, "--model: " + out.config_file.string() + " has no model " +
                                                  config::not_among(options.model, models));
  out.model = !options.model.empty()          ? options.model
              : config->default_model.empty() ? config->models.front().id
                                              : config->default_model;
  auto key = new_key();
  if (!key) return pass(key);
  out.key = std::move(*key);
  out.digest = digest_of(out.key);
  out.manifest = manifests_of(*config, out.config_file) / (file_stem(options.app) + ".yaml");
  out.text = manifest_text(options, out.digest, *config);
  const auto app = config::parse_app(out.text, out.manifest.string());
  if (!app) return pass(app);
  if (auto ok = check_with_new(*config, *app, out.manifest); !ok) return pass(ok);
  out.url = listening_url(*config);
  const auto state = config->state_dir.empty() ? settings::default_state_dir() : config->state_dir;
  if (!state.empty()) out.daemon = store::running_daemon(state);
  return out;
}

std::string first_request(const NewApp& app) {
  constexpr std::string_view kUnix = "unix:";
  const bool unix_socket = app.url.starts_with(kUnix);
  const std::string server = unix_socket ? "http://localhost" : app.url;
  const nlohmann::ordered_json body{{"model", app.model},
                                    {"messages", {{{"role", "user"}, {"content", "What is prefill?"}}}}};
  return "curl -s " + (unix_socket ? "--unix-socket " + shell_word(app.url.substr(kUnix.size())) + " " : "") +
         shell_word(server + "/v1/chat/completions") + " -H \"authorization: Bearer $KEY\" \\\n" +
         "    -H 'content-type: application/json' -d " + shell_word(body.dump());
}

std::string new_app_text(const NewApp& app) {
  constexpr std::string_view kProcess = "process ";
  std::string daemon = "  flyball serve --config " + shell_word(app.config_file.string()) + "\n";
  if (app.daemon && app.daemon->starts_with(kProcess))
    daemon = "  kill -HUP " + app.daemon->substr(kProcess.size()) + "\n";
  return "wrote " + app.manifest.string() + "\n" +
         (app.daemon
              ? "\nHave the running daemon read it, if it serves this configuration, and ask as the app:\n"
              : "\nStart the daemon, and ask as the app:\n") +
         daemon + "  KEY=" + app.key + "\n  " + first_request(app) +
         "\n\nThe key is shown this once: the manifest holds its digest alone.\n";
}

std::string new_app_json(const NewApp& app) {
  return nlohmann::ordered_json{{"manifest", app.manifest.string()},
                                {"key", app.key},
                                {"key_sha256", app.digest},
                                {"url", app.url},
                                {"model", app.model},
                                {"daemon", app.daemon.value_or("")}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

int print_new(const NewOptions& options) {
  const auto app = make_app(options);
  if (!app) return report(app.error());
  const std::string out = options.json ? new_app_json(*app) : new_app_text(*app);
  if (const auto written =
          write_new(app->manifest, app->text,
                    "another app's manifest is kept there; remove it, or choose another name");
      !written)
    return report(written.error());
  if (std::fputs(out.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return kOk;
  ::unlink(app->manifest.c_str());  // nobody has the key that it names
  return kIo;
}

}  // namespace

void add_app_new_command(CLI::App& app_command, int& exit_code) {
  auto options = std::make_shared<NewOptions>();
  CLI::App* command =
      app_command.add_subcommand("new", "Write an app's manifest, with a key that is shown once");
  command->add_option("name", options->app, "the app's id")->required();
  command->add_option("--class", options->kind, "what kind of work it is")->capture_default_str();
  command->add_option("--model", options->model, "the only model that it may use (default: all)");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_flag("--json", options->json, "manifest, key and digest as JSON");
  command->footer(
      "Examples:\n"
      "  flyball app new chat-page\n"
      "  flyball app new nightly --class batch --model small --config my/config.yaml\n"
      "\n"
      "Writes NAME.yaml in the configuration's apps_dir and changes no file that is there.\n"
      "Exit code 64: a wrong name, class or model, or an app that is there already; 74: the file\n"
      "cannot be written; 78: the configuration or a manifest is wrong.");
  command->callback([options, &exit_code] { exit_code = print_new(*options); });
}

}  // namespace flyball::cli
