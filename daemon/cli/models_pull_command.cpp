// `flyball models pull`: a model from a hub or an address into the folder of models and the configuration.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <variant>

#include <nlohmann/json.hpp>

#include "config/app_models.hpp"
#include "config/ascii_lower.hpp"
#include "config/name_list.hpp"
#include "config/table.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/model_check.hpp"
#include "daemon/cli/model_entry.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/operators_file.hpp"
#include "daemon/cli/pull_progress.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/pull.hpp"
#include "daemon/hub/shelf.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

struct PullOptions {
  std::string name, quant, sha256, id, config;
  bool no_config = false, reload = false, quiet = false, json = false;
  std::uint32_t timeout = 60, retries = 5;
};

struct Pulled {
  hub::PullPlan plan;
  std::vector<hub::Arrived> files;
  std::string id;                     // "": not in the configuration
  bool is_default = false;            // requests that name no model go to it from here on
  std::filesystem::path written;      // its file there; "": it was there before
  std::filesystem::path config_file;  // "": there is none
  std::string trouble;                // why this build does not run it
  std::string reload;                 // the command for a running daemon
  bool made_config = false;           // a daemon that runs has the shipped one
};

// The token is read where it may be sent, so that a wrong one disturbs nothing else.
Result<std::string> hub_token(const config::Config& config, const hub::Url& hub) {
  if (!config.hub.token) return std::string();
  if (!hub.tls && !hub::is_loopback(hub))
    return fail(ErrorCode::config_invalid,
                "hub.token would go to " + hub.origin() +
                    " without encryption, where others on the way read "
                    "it: name an address with https in hub.url, or leave the token out",
                {}, config.place("hub.token"));
  auto token = config::read_key(*config.hub.token);
  if (token) return token;
  Error error = token.error();
  error.message = "hub.token: " + error.message;
  if (error.where.empty()) error.where = config.place("hub.token");
  return std::unexpected(std::move(error));
}

Result<hub::PullPlan> plan_pull(const PullOptions& options, const hub::HttpSource& source,
                                const std::variant<hub::HubName, hub::Url>& name,
                                const std::filesystem::path& models_dir) {
  if (const auto* const url = std::get_if<hub::Url>(&name)) {
    if (!options.quant.empty())
      return fail(ErrorCode::unsupported_value, "--quant chooses among a repository's files, and " +
                                                    config::quoted(url->shown()) + " names one already");
    return hub::plan_from_url(*url, options.sha256, models_dir);
  }
  hub::HubName wanted = std::get<hub::HubName>(name);
  if (!options.quant.empty()) wanted.quant = options.quant;
  auto plan = hub::plan_from_hub(source, wanted, models_dir, {.tries = options.retries},
                                 [&](const std::string& note) {
                                   if (!options.quiet)
                                     std::fprintf(stderr, "%s\n", terminal_text(note).c_str());
                                 });
  if (!plan || options.sha256.empty()) return plan;
  if (plan->items.size() != 1)
    return fail(ErrorCode::unsupported_value, "--sha256 is one file's digest, and the model has " +
                                                  std::to_string(plan->items.size()) +
                                                  " files: leave it out");
  hub::Expected& expected = plan->items.front().expected;
  if (!expected.sha256.empty() && expected.sha256 != options.sha256)
    return fail(ErrorCode::upstream_invalid, "the hub lists the SHA-256 " + expected.sha256 + ", expected " +
                                                 options.sha256 + " (--sha256)");
  expected.sha256 = options.sha256;
  plan->of_unknown_bytes = false;
  return plan;
}

// A name that no model may have, or that another one has, is better known before gigabytes are fetched.
Result<void> check_pull_id(const Pulled& pulled, const config::Config& config, const std::string& id) {
  if (auto ok = check_id(id, "--id"); !ok) return ok;
  const auto taken = std::ranges::find_if(
      config.models, [&](const config::ModelEntry& model) { return config::is_called(model, id); });
  if (taken == config.models.end() || taken->path == pulled.plan.model()) return {};
  return fail(ErrorCode::unsupported_value,
              "the configuration has another model called " + id + ": choose a name with --id", {},
              config.place("models." + taken->id));
}

// A configuration that this user may not write is better known before gigabytes are fetched, too.
Result<void> check_writable(const std::filesystem::path& config_file) {
  if (config_file.empty()) return {};  // it is made in the user's own folder
  std::filesystem::path folder = config_file.parent_path() / "config.d";
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) folder = config_file.parent_path();
  if (folder.empty()) folder = ".";
  if (::access(folder.c_str(), W_OK) == 0) return {};
  return fail(ErrorCode::io_error,
              "this user may not add the model to the configuration in " + folder.string() + " (" +
                  std::strerror(errno) +
                  "): run the command as its owner, or fetch the files alone with --no-config");
}

Result<std::vector<hub::Arrived>> fetch(const PullOptions& options, const hub::HttpSource& source,
                                        const hub::PullPlan& plan) {
  const auto style = options.quiet          ? PullProgress::Style::none
                     : stderr_is_terminal() ? PullProgress::Style::bar
                                            : PullProgress::Style::lines;
  PullProgress progress(style, plan.items);
  const hub::Patience patience{.tries = options.retries};
  const hub::Watcher watcher = progress.watcher();
  if (!plan.folder.empty()) return hub::fetch_folder(source, plan.folder, plan.items, patience, watcher);
  hub::Inspect inspect;
  // A model that this build does not run is a model still: it stays, as one of the hub does.
  if (plan.of_unknown_bytes)
    inspect = [&](std::span<const std::filesystem::path> files) -> Result<void> {
      auto sound = check_model_parts(files, plan.files());
      if (!sound &&
          (sound.error().code == ErrorCode::model_invalid || sound.error().code == ErrorCode::io_error))
        return sound;
      return {};
    };
  return hub::fetch_all(source, plan.items, patience, watcher, inspect);
}

// Adds the model to the configuration, unless an id of it uses these files already.
Result<void> add_to_config(const PullOptions& options, Pulled& pulled, const config::Config& config,
                           const std::string& id) {
  const auto users = hub::users_of(config, hub::files_of(pulled.plan.model()));
  if (!users.empty()) {
    pulled.id = users.front();
    return {};
  }
  if (options.no_config) return {};
  const std::vector<NewModel> models{{id, pulled.plan.model()}};
  const auto written = write_models(pulled.config_file, models);
  if (!written) return pass(written);
  pulled.id = id;
  pulled.written = written->files.front();
  pulled.is_default = !written->default_model.empty();
  pulled.config_file = written->config_file;
  pulled.made_config = written->made_config;
  return {};
}

Result<Pulled> pull(const PullOptions& options) {
  Pulled out;
  out.config_file = options.config.empty() ? settings::find_config() : std::filesystem::path(options.config);
  const auto config = settings::config_at(out.config_file);
  if (!config) return pass(config);
  std::filesystem::path models_dir = settings::models_dir(*config, out.config_file);
  if (models_dir.empty())
    return fail(ErrorCode::config_invalid,
                "there is no folder for models: HOME is not set; name one with models_dir in config.yaml");
  models_dir = std::filesystem::absolute(models_dir);
  const auto hub = hub::parse_url(config->hub.url);
  if (!hub) return pass(hub);
  const auto name = hub::read_name(options.name, *hub);
  if (!name) return pass(name);
  const auto* const url = std::get_if<hub::Url>(&*name);
  auto token =
      !url || hub::same_origin(*url, *hub) ? hub_token(*config, *hub) : Result<std::string>(std::string());
  if (!token) return pass(token);
  const hub::HttpSource source(*hub, std::move(*token), {.idle = std::chrono::seconds(options.timeout)});
  auto plan = plan_pull(options, source, *name, models_dir);
  if (!plan) return pass(plan);
  out.plan = std::move(*plan);
  const std::string id = options.id.empty() ? model_id_from(out.plan.name) : options.id;
  if (!options.no_config)
    if (auto free = check_pull_id(out, *config, id); !free) return pass(free);
  if (auto pinned = hub::heed_pins(out.plan, *config); !pinned) return pass(pinned);
  if (!options.no_config && hub::users_of(*config, {out.plan.model()}).empty())
    if (auto writable = check_writable(out.config_file); !writable) return pass(writable);
  auto files = fetch(options, source, out.plan);
  if (!files) return pass(files);
  out.files = std::move(*files);
  if (const auto runs = check_model_file(out.plan.model());
      !runs && runs.error().code != ErrorCode::model_unavailable) {
    out.trouble = runs.error().message;
    return out;
  }
  if (auto added = add_to_config(options, out, *config, id); !added) {
    Error error = added.error();
    error.message += "; the model is at " + out.plan.model().string();
    return std::unexpected(std::move(error));
  }
  // The daemon opens a file that was replaced when it reads its configuration again, too.
  const bool came = std::ranges::any_of(out.files, [](const hub::Arrived& file) { return !file.was_here; });
  if (options.reload || !out.written.empty() || (came && !out.id.empty()))
    out.reload = reload_command(*config, out.config_file);
  return out;
}

std::string pulled_json(const Pulled& pulled) {
  nlohmann::ordered_json out{{"model", pulled.id},
                             {"path", pulled.plan.model().string()},
                             {"from", pulled.plan.from},
                             {"files", nlohmann::ordered_json::array()},
                             {"config_file", pulled.written.string()},
                             {"trouble", pulled.trouble},
                             {"reload", pulled.reload}};
  for (const hub::Arrived& file : pulled.files)
    out["files"].push_back({{"path", file.file.string()},
                            {"bytes", file.size},
                            {"sha256", file.sha256},
                            {"was_here", file.was_here},
                            {"compared", file.compared}});
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string pulled_text(const Pulled& pulled, const std::string& asked_id, const std::string& config) {
  std::string out;
  for (const hub::Arrived& file : pulled.files)
    out += (file.was_here ? "was here " : "fetched  ") + terminal_text(file.file.string()) + "  " +
           config::size_text(file.size) + "  sha256 " + file.sha256 +
           (file.compared.empty() ? "" : " (" + terminal_text(file.compared) + ")") + "\n";
  if (!pulled.trouble.empty())
    out += "This build does not run it, so the configuration is as it was: " + terminal_text(pulled.trouble) +
           "\n";
  if (!pulled.written.empty())
    out += "wrote    " + terminal_text(pulled.written.string()) + ": the model is called " + pulled.id +
           (pulled.is_default ? ", and answers requests that name no model" : "") + "\n";
  else if (!pulled.id.empty())
    out += "The configuration has it already: it is called " + pulled.id +
           (asked_id.empty() || asked_id == pulled.id ? "" : ", and --id does not change that") + "\n";
  if (pulled.trouble.empty())
    out += ask_text(pulled.id, pulled.plan.model(), config);
  return out;
}

// A running daemon learns of the model when its files are read again: at once by --reload or where a person
// says so.
int reload_daemon(const PullOptions& options, const Pulled& pulled) {
  if (pulled.made_config || pulled.reload.empty()) {
    if (!pulled.written.empty() && !options.json && !options.quiet)
      std::fputs(serve_text(pulled.reload, pulled.made_config, options.config).c_str(), stdout);
    return kOk;
  }
  bool wanted = options.reload;
  if (!wanted && !options.json && !options.quiet && stdin_is_terminal() && stdout_is_terminal()) {
    std::printf("\nA daemon runs. Have it read the configuration again (%s)? [Y/n] ", pulled.reload.c_str());
    std::fflush(stdout);
    char answer[16] = "";
    if (std::fgets(answer, sizeof answer, stdin) == nullptr) return kOk;
    wanted = answer[0] == '\n' || answer[0] == 'y' || answer[0] == 'Y';
  }
  if (!wanted) {
    if (!options.json && !options.quiet)
      std::fputs(serve_text(pulled.reload, false, options.config).c_str(), stdout);
    return kOk;
  }
  if (std::system(pulled.reload.c_str()) == 0) return kOk;
  std::fprintf(stderr, "flyball: the daemon was not reloaded: `%s` failed\n", pulled.reload.c_str());
  return kUnavailable;
}

int run_pull(PullOptions options) {
  options.sha256 = ascii_lower(options.sha256);
  const auto pulled = pull(options);
  if (!pulled) return report(terminal_text(pulled.error()));
  const std::string out = options.json    ? pulled_json(*pulled)
                          : options.quiet ? ""
                                          : pulled_text(*pulled, options.id, options.config);
  if (std::fputs(out.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return kIo;
  return pulled->trouble.empty() ? reload_daemon(options, *pulled) : kFailed;
}

const CLI::Validator& sha256_digits() {
  static const CLI::Validator kDigits(
      [](std::string& text) {
        const bool right = text.size() == 64 &&
                           std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
        return right ? std::string() : config::quoted(text) + " is no SHA-256 of 64 hexadecimal digits";
      },
      "HEX");
  return kDigits;
}

}  // namespace

void add_models_pull_command(CLI::App& models_command, int& exit_code) {
  auto options = std::make_shared<PullOptions>();
  CLI::App* command =
      models_command.add_subcommand("pull", "Fetch a model from a hub or an address, and serve it");
  command->add_option("name", options->name, "ORG/REPO, ORG/REPO:QUANT, ORG/REPO/FILE.gguf, or an address")
      ->required();
  command->add_option("--quant", options->quant,
                      "Quantization among the repository's (default: Q4_K_M, Q8_0, ...)");
  command->add_option("--sha256", options->sha256, "The digest that the file must have")
      ->check(sha256_digits());
  command->add_option("--id", options->id, "The model's name for clients (default: from the file's name)");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  CLI::Option* const no_config =
      command->add_flag("--no-config", options->no_config, "Leave the configuration as it is");
  command->add_flag("--reload", options->reload, "Have a running daemon read the configuration again")
      ->excludes(no_config);
  command->add_flag("--quiet", options->quiet, "Print errors alone");
  command->add_flag("--json", options->json, "Print the files and their digests as JSON");
  command->add_option("--timeout", options->timeout, "Seconds without a byte before a connection is left")
      ->check(whole_number(1, 3600))
      ->capture_default_str();
  command->add_option("--retries", options->retries, "Attempts in a row that bring less than 64 KiB")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  flyball models pull Qwen/Qwen3-0.6B-GGUF\n"
      "  flyball models pull unsloth/Qwen3-8B-GGUF --quant Q5_K_M --id qwen\n"
      "  flyball models pull https://example.org/files/model.gguf --sha256 HEX\n"
      "\n"
      "Files lie in the configuration's models_dir, from its hub (docs/models.md). A pull that ended\n"
      "early goes on where it stopped when the same command runs again.\n"
      "Exit code 1: the files are here, and this build does not run them; 64: no such repository,\n"
      "quantization or file; 65: a malformed name or file; 69: the server refuses, is not reached or\n"
      "sends other bytes; 74: a file cannot be written, or the disk is full; 78: the configuration is\n"
      "wrong.");
  command->callback([options, &exit_code] { exit_code = run_pull(*options); });
}

}  // namespace flyball::cli
