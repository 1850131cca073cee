// `flyball models find`: the model files that other tools have on this machine, and with --write those that a
// person picks, in the configuration.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "config/name_list.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/found_models.hpp"
#include "daemon/cli/found_print.hpp"
#include "daemon/cli/local_servers.hpp"
#include "daemon/cli/model_entry.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/discover/places.hpp"
#include "daemon/discover/stores.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

struct FindOptions {
  std::vector<std::string> picks, folders;
  std::vector<std::uint16_t> ports;
  bool write = false, all = false, json = false, no_servers = false;
  std::string config, user;
  bool asks() const { return write && picks.empty() && !all; }
};

using Models = std::vector<const ExaminedModel*>;

// The user whose access to the files is judged.
Result<std::optional<discover::Reader>> reader_of(const FindOptions& o) {
  if (o.user.empty()) return discover::service_reader();
  if (auto reader = discover::reader_named(o.user)) return reader;
  return fail(ErrorCode::unsupported_value, "--user: there is no user " + config::quoted(o.user));
}

std::vector<GoneModel> gone_models(const config::Config& config) {
  std::vector<GoneModel> out;
  for (const config::ModelEntry& entry : config.models) {
    std::error_code ignored;
    if (!entry.embedded &&
        std::filesystem::status(entry.path, ignored).type() == std::filesystem::file_type::not_found)
      out.push_back({entry.id, entry.path, config.place("models." + entry.id)});
  }
  return out;
}

// A folder that may not be looked into is said once, whichever stores would lie behind it.
void forget_repeated(std::vector<discover::StoreContents>& stores) {
  std::set<std::filesystem::path> closed;
  for (discover::StoreContents& store : stores)
    std::erase_if(store.obstacles, [&](const discover::Obstacle& obstacle) {
      return obstacle.kind == discover::Obstacle::Kind::closed && !closed.insert(obstacle.path).second;
    });
  std::erase_if(stores, [](const discover::StoreContents& store) {
    return store.models.empty() && store.obstacles.empty();
  });
}

Result<Found> find(const FindOptions& o, const config::Config& config,
                   const std::filesystem::path& config_file) {
  Found out;
  auto reader = reader_of(o);
  if (!reader) return pass(reader);
  out.reader = std::move(*reader);
  std::vector<discover::StorePlace> places = discover::known_places(discover::homes());
  if (const auto pulled = settings::models_dir(config, config_file); !pulled.empty())
    places.push_back({discover::StoreKind::folder, pulled});
  for (const std::string& folder : o.folders) {
    std::error_code failed;
    const auto path = std::filesystem::absolute(folder, failed);
    if (failed || !std::filesystem::is_directory(path, failed))
      return fail(ErrorCode::io_error, "--in: there is no folder " + config::quoted(folder));
    places.push_back(discover::place_of(path));
  }
  for (const discover::StorePlace& place : places) out.stores.push_back(discover::look_through(place));
  forget_repeated(out.stores);
  Hardware hardware;
  out.models = examine(out.stores, hardware, {config, out.reader, stderr_is_terminal() && !o.json});
  out.gone = gone_models(config);
  if (!o.no_servers) out.servers = local_servers(o.ports);
  return out;
}

Models all_that_fit(const Found& found) {
  Models out = candidates_of(found);
  std::erase_if(out, [](const ExaminedModel* model) { return !fits_somewhere(*model); });
  return out;
}

// The model of this id, or of this name in its store.
Result<const ExaminedModel*> model_called(const Found& found, const std::string& word) {
  const auto model = std::ranges::find_if(found.models, [&](const ExaminedModel& one) {
    return one.id == word || one.found.name == word || std::ranges::find(one.also, word) != one.also.end() ||
           std::ranges::find(one.aliases, word) != one.aliases.end();
  });
  if (model == found.models.end()) {
    const Models candidates = candidates_of(found);
    std::vector<std::string_view> ids;
    for (const ExaminedModel* one : candidates) ids.push_back(one->id);
    return fail(ErrorCode::unsupported_value, "no model was found " + config::not_among(word, ids));
  }
  if (model->trouble)
    return fail(model->trouble->code,
                model->id + " is not read by this build: " + terminal_text(model->trouble->message));
  if (model->configured)
    return fail(ErrorCode::unsupported_value, model->id + " is in the configuration already");
  return &*model;
}

// The models that a person names at a prompt: by ids, by numbers of the printed list, or "all".
Result<Models> asked_for(const Found& found) {
  std::fflush(stdout);
  std::fprintf(stderr, "\nName the models to serve, by numbers or ids, or \"all\" that fit: ");
  std::string line;
  std::getline(std::cin, line);
  std::ranges::replace(line, ',', ' ');
  std::istringstream words(line);
  const Models candidates = candidates_of(found);
  Models out;
  for (std::string word; words >> word;) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool counts = error == std::errc() && end == word.data() + word.size() && number >= 1 &&
                        number <= candidates.size();
    const auto called = model_called(found, word);
    if (called)
      out.push_back(*called);
    else if (counts)
      out.push_back(candidates[number - 1]);
    else if (word == "all")
      std::ranges::copy(all_that_fit(found), std::back_inserter(out));
    else
      return pass(called);
  }
  return out;
}

Result<Models> picked(const Found& found, const FindOptions& o) {
  if (o.all) return all_that_fit(found);
  if (o.asks()) return asked_for(found);
  Models out;
  for (const std::string& word : o.picks) {
    const auto model = model_called(found, word);
    if (!model) return pass(model);
    out.push_back(*model);
  }
  return out;
}

std::uint32_t longest_context(const ExaminedModel& model) {
  std::uint32_t out = 0;
  for (const ModelFit& fit : model.fits)
    if (fit.missing == 0) out = std::max(out, fit.longest_context);
  return out;
}

void print_written(const WrittenModels& written) {
  if (written.made_config)
    std::printf("wrote %s, the shipped configuration\n", terminal_text(written.config_file.string()).c_str());
  for (const auto& file : written.files) std::printf("wrote %s\n", terminal_text(file.string()).c_str());
  if (!written.default_model.empty())
    std::printf("requests that name no model go to %s\n", written.default_model.c_str());
}

int write(const Found& found, const FindOptions& o, const config::Config& config,
          const std::filesystem::path& config_file) {
  if (o.asks()) print_text(found, true);
  const bool nothing = o.asks() ? candidates_of(found).empty() : o.all && all_that_fit(found).empty();
  const auto models = nothing ? Models() : picked(found, o);
  if (!models) return report(models.error());
  std::vector<NewModel> entries;
  std::set<const ExaminedModel*> taken;
  for (const ExaminedModel* model : *models) {
    if (!taken.insert(model).second) continue;
    entries.push_back({.id = model->id,
                       .path = model->found.path,
                       .aliases = model->aliases,
                       .longest = longest_context(*model)});
    if (!fits_somewhere(*model))
      std::fprintf(stderr, "flyball: warning: %s fits into no memory of this machine\n", model->id.c_str());
  }
  if (entries.empty()) {
    if (o.json) print_json(found, WrittenModels());
    if (!nothing) return kOk;
    std::fprintf(stderr, "flyball: nothing to write: no model fits here that is not configured yet\n");
    return kFailed;
  }
  const auto written = write_models(config_file, entries);
  if (!written) return report(written.error());
  if (o.json)
    print_json(found, *written);
  else
    print_written(*written);
  const NewModel& first = entries.front();
  const std::string steps =
      ask_text(first.id, first.path, o.config) +
      serve_text(reload_command(config, written->config_file), written->made_config, o.config);
  if (!o.json) std::fputs(steps.c_str(), stdout);
  return kOk;
}

int find_models(const FindOptions& o) {
  if (o.asks() && (!stdin_is_terminal() || o.json)) {
    std::fprintf(stderr,
                 "flyball: --write needs the ids of the models, or --all\nSee flyball models find --help.\n");
    return kUsage;
  }
  const std::filesystem::path config_file =
      o.config.empty() ? settings::find_config() : std::filesystem::path(o.config);
  const auto config = settings::config_at(config_file);
  if (!config) return report(config.error());
  const auto found = find(o, *config, config_file);
  if (!found) return report(found.error());
  if (o.write) return write(*found, o, *config, config_file);
  if (o.json)
    print_json(*found, {});
  else
    print_text(*found, false);
  return kOk;
}

}  // namespace

void add_models_find_command(CLI::App& models_command, int& exit_code) {
  auto options = std::make_shared<FindOptions>();
  CLI::App* command = models_command.add_subcommand(
      "find", "The models of Ollama, LM Studio, Hugging Face and other folders, and which of them run here");
  CLI::Option* picks =
      command->add_option("models", options->picks, "With --write: the ids of the models to serve");
  command->add_option("--in", options->folders, "Look through this folder, too; may be repeated")
      ->allow_extra_args(false);
  CLI::Option* write = command->add_flag("--write", options->write,
                                         "Put the named models into config.d/; on a terminal, ask for them");
  picks->needs(write);
  command->add_flag("--all", options->all, "With --write: all models that fit here")
      ->needs(write)
      ->excludes(picks);
  command->add_option(
      "--user", options->user,
      "Say which files this user cannot open (default: the service's, where it is installed)");
  command
      ->add_option("--port", options->ports,
                   "Ask this port of this machine for a server, instead of the usual ones")
      ->check(whole_number(1, 65535))
      ->allow_extra_args(false);
  command->add_flag("--no-servers", options->no_servers, "Ask no servers");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_flag("--json", options->json, "As JSON");
  command->footer(
      "Examples:\n"
      "  flyball models find\n"
      "  flyball models find --in /mnt/models\n"
      "  flyball models find --write qwen3:8b\n"
      "\n"
      "Files are used where they lie; none is copied or changed. docs/models.md describes the output.");
  command->callback([options, &exit_code] { exit_code = find_models(*options); });
}

}  // namespace flyball::cli
