// `flyball models find`: the model files that other tools have on this machine, what this build makes of
// them, and with --write those that a person picks, in the configuration.
#include <pwd.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <grp.h>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/found_models.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/local_servers.hpp"
#include "daemon/cli/model_entry.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/operators_file.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/discover/stores.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using nlohmann::ordered_json;

struct FindOptions {
  std::vector<std::string> picks, folders;
  std::vector<std::uint16_t> ports;
  bool write = false, all = false, json = false, no_servers = false;
  std::string config, user;
};

struct Found {
  std::vector<discover::StoreContents> stores;  // those in which anything lies
  std::vector<ExaminedModel> models;
  std::vector<LocalServer> servers;
  std::optional<discover::Reader> reader;
};

// Names come from other programs and from anybody's files: a terminal takes no orders from them.
std::string shown(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return out;
}
std::string shown_path(const std::filesystem::path& path) {
  return shown(path.string());
}

// The layout tells whose store a named folder is.
discover::StorePlace place_of(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder / "manifests", ignored) &&
      std::filesystem::is_directory(folder / "blobs", ignored))
    return {discover::StoreKind::ollama, folder};
  if (folder.filename() == "hub" && std::filesystem::exists(folder / "version.txt", ignored))
    return {discover::StoreKind::hugging_face, folder};
  constexpr int kLooked = 1000;
  int n = 0;
  for (std::filesystem::directory_iterator it(folder, ignored), end; it != end && n < kLooked;
       it.increment(ignored), ++n)
    if (it->path().filename().string().starts_with("models--"))
      return {discover::StoreKind::hugging_face, folder};
  return {discover::StoreKind::folder, folder};
}

discover::Reader reader_named(const std::string& user, bool dynamic) {
  discover::Reader out{user, std::nullopt, {}};
  std::array<char, 16 * 1024> buffer{};
  passwd entry{}, *found = nullptr;
  if (::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    if (dynamic) out.name = "the service";
    return out;
  }
  out.uid = found->pw_uid;
  out.groups.resize(256);
  int n = static_cast<int>(out.groups.size());
  if (::getgrouplist(user.c_str(), found->pw_gid, out.groups.data(), &n) < 0)
    n = static_cast<int>(out.groups.size());
  out.groups.resize(static_cast<std::size_t>(n));
  return out;
}

// Whoever the daemon runs as where it is a service: a dynamic user called as the unit.
bool service_is_installed() {
  std::error_code ignored;
  for (const char* const folder : {"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"})
    if (std::filesystem::exists(std::filesystem::path(folder) / "flyball.service", ignored)) return true;
  return false;
}

Result<Found> find(const FindOptions& o, const config::Config& config,
                   const std::filesystem::path& config_file) {
  Found out;
  std::vector<discover::StorePlace> places = discover::known_places(discover::homes());
  if (const auto pulled = settings::models_dir(config, config_file); !pulled.empty())
    places.push_back({discover::StoreKind::folder, pulled});
  for (const std::string& folder : o.folders) {
    std::error_code failed;
    const auto path = std::filesystem::absolute(folder, failed).lexically_normal();
    if (failed || !std::filesystem::is_directory(path, failed))
      return fail(ErrorCode::io_error, "--in: there is no folder " + config::quoted(folder));
    places.push_back(place_of(path));
  }
  for (const discover::StorePlace& place : places) {
    discover::StoreContents contents = discover::look_through(place);
    if (!contents.models.empty() || !contents.obstacles.empty()) out.stores.push_back(std::move(contents));
  }
  if (!o.user.empty())
    out.reader = reader_named(o.user, false);
  else if (service_is_installed())
    out.reader = reader_named("flyball", true);
  if (!o.user.empty() && !out.reader->uid)
    return fail(ErrorCode::invalid_value, "--user: there is no user " + config::quoted(o.user));
  Hardware hardware;
  out.models = examine(out.stores, hardware, {config, out.reader, stderr_is_terminal() && !o.json});
  if (!o.no_servers) out.servers = local_servers(o.ports);
  return out;
}

// "chmod o+x /home/me && chmod o+r /home/me/a.gguf"
std::string mend_command(const std::vector<discover::Closing>& closed) {
  std::string out, change;
  for (const discover::Closing& closing : closed) {
    if (closing.change != change) out += (out.empty() ? "" : " && ") + std::string("chmod ") + closing.change;
    change = closing.change;
    const std::string path = closing.path.string();
    const bool plain =
        path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@,") ==
        std::string::npos;
    out += " " + (plain ? path : shell_word(shown(path)));
  }
  return out;
}

std::string speed_text(double tokens_a_second) {
  char text[32];
  std::snprintf(text, sizeof text, tokens_a_second < 10 ? "%.1f" : "%.0f", tokens_a_second);
  return text;
}

std::string fit_text(const ModelFit& fit) {
  std::string out = fit.pool + ": ";
  if (fit.missing > 0) return out + "does not fit, " + size_text(fit.missing) + " more are needed";
  out += fit.fits ? "fits" : "fits with a shorter context";
  if (fit.longest_context > 0) out += ", up to " + std::to_string(fit.longest_context) + " tokens";
  if (fit.decode_tps)
    out += (fit.measured ? ", " : ", about ") + speed_text(*fit.decode_tps) + " tokens/s" +
           (fit.measured ? " as measured" : "");
  return out;
}

bool can_be_written(const ExaminedModel& model) {
  return model.info.has_value() && !model.configured;
}

void print_model(const ExaminedModel& m, const Found& found, std::size_t number) {
  std::printf("  %s%s%s\n", number > 0 ? (std::to_string(number) + ") ").c_str() : "", m.id.c_str(),
              m.configured ? "  (in the configuration)" : "");
  const auto line = [](const std::string& text) { std::printf("      %s\n", text.c_str()); };
  std::string facts = size_text(m.found.bytes);
  if (!m.family.empty()) facts += ", " + m.family;
  if (!m.quantization.empty()) facts += ", " + m.quantization;
  if (!m.tensors.empty()) facts += " (" + census_text(m.tensors) + ")";
  if (m.info) facts += ", " + short_count(m.info->parameters) + " parameters";
  line(facts);
  if (m.found.name != m.id) line("called " + shown(m.found.name));
  for (const std::string& name : m.also) line("also " + shown(name));
  for (const std::string& note : m.found.notes) line(shown(note));
  if (m.trouble) line("not read: " + shown(m.trouble->message));
  for (const ModelFit& fit : m.fits) line(fit_text(fit));
  if (!m.closed.empty())
    line(
        (found.reader->name == "the service" ? found.reader->name : "the user " + shown(found.reader->name)) +
        " cannot open it: " + mend_command(m.closed));
}

void print_obstacle(const discover::Obstacle& obstacle) {
  std::printf(
      "  %s\n      %s\n", shown(obstacle.name.empty() ? obstacle.path.string() : obstacle.name).c_str(),
      (std::string(to_string(obstacle.kind)) + ": " + shown_path(obstacle.path) + " " + shown(obstacle.what))
          .c_str());
  if (!obstacle.remedy.empty()) std::printf("      remedy: %s\n", shown(obstacle.remedy).c_str());
}

std::string server_text(const LocalServer& server) {
  std::string out = "127.0.0.1:" + std::to_string(server.port) + "  ";
  if (!server.kind.empty())
    out += server.kind + (server.version.empty() ? "" : " " + shown(server.version));
  else
    out += "a server of unknown kind" +
           (server.usual.empty() ? "" : " (the port is usually that of " + server.usual + ")");
  constexpr std::size_t kShown = 4;
  if (!server.models.empty()) out += ", " + std::to_string(server.models.size()) + " models: ";
  for (std::size_t i = 0; i < server.models.size() && i < kShown; ++i)
    out += (i == 0 ? "" : ", ") + shown(server.models[i].substr(0, 64));
  if (server.models.size() > kShown) out += " and more";
  return out;
}

// The models that --write may take, in the order of print_text's numbers.
std::vector<const ExaminedModel*> candidates_of(const Found& found) {
  std::vector<const ExaminedModel*> out;
  for (const ExaminedModel& model : found.models)
    if (can_be_written(model)) out.push_back(&model);
  return out;
}

void print_text(const Found& found, const FindOptions& o) {
  std::size_t number = 0;
  const ExaminedModel* first = nullptr;
  for (const discover::StoreContents& store : found.stores) {
    std::printf("%s, %s\n", std::string(to_string(store.kind)).c_str(), shown_path(store.root).c_str());
    for (const ExaminedModel& model : found.models) {
      if (model.store != store.kind ||
          std::ranges::none_of(store.models,
                               [&](const discover::FoundModel& one) { return one.path == model.found.path; }))
        continue;
      const bool counts = can_be_written(model);
      if (counts && first == nullptr) first = &model;
      print_model(model, found, counts && o.write ? ++number : 0);
    }
    for (const discover::Obstacle& obstacle : store.obstacles) print_obstacle(obstacle);
  }
  if (found.stores.empty())
    std::printf(
        "no model files in the stores of Ollama, LM Studio, Hugging Face and llama.cpp; name folders with "
        "--in\n");
  if (!found.servers.empty()) std::printf("Servers on this machine\n");
  for (const LocalServer& server : found.servers) std::printf("  %s\n", server_text(server).c_str());
  if (first != nullptr && !o.write)
    std::printf("\nServe one from where it lies:\n  flyball models find --write %s\n", first->id.c_str());
}

ordered_json json_of(const ExaminedModel& m) {
  ordered_json out{{"id", m.id},
                   {"store", id_of(m.store)},
                   {"name", m.found.name},
                   {"also", m.also},
                   {"path", m.found.path.string()},
                   {"bytes", m.found.bytes},
                   {"notes", m.found.notes},
                   {"configured", m.configured},
                   {"family", m.family},
                   {"quantization", m.quantization},
                   {"tensors", m.tensors},
                   {"read", m.info.has_value()},
                   {"where", ordered_json::array()}};
  if (m.info) out["parameters"] = m.info->parameters;
  if (m.trouble) out["error"] = {{"code", to_string(m.trouble->code)}, {"message", m.trouble->message}};
  for (const ModelFit& fit : m.fits) {
    ordered_json one{{"engine", fit.backend},
                     {"pool", fit.pool},
                     {"fits", fit.fits},
                     {"missing_bytes", fit.missing},
                     {"longest_context", fit.longest_context}};
    if (fit.decode_tps) {
      one["decode_tps"] = std::round(*fit.decode_tps * 100) / 100;
      one["measured"] = fit.measured;
    }
    out["where"].push_back(std::move(one));
  }
  if (!m.closed.empty()) out["closed"] = mend_command(m.closed);
  return out;
}

void print_json(const Found& found, const std::optional<WrittenModels>& written) {
  ordered_json out{{"models", ordered_json::array()},
                   {"obstacles", ordered_json::array()},
                   {"servers", ordered_json::array()}};
  for (const ExaminedModel& model : found.models) out["models"].push_back(json_of(model));
  for (const discover::StoreContents& store : found.stores)
    for (const discover::Obstacle& obstacle : store.obstacles)
      out["obstacles"].push_back({{"kind", to_string(obstacle.kind)},
                                  {"store", id_of(store.kind)},
                                  {"name", obstacle.name},
                                  {"path", obstacle.path.string()},
                                  {"what", obstacle.what},
                                  {"remedy", obstacle.remedy}});
  for (const LocalServer& server : found.servers)
    out["servers"].push_back({{"port", server.port},
                              {"kind", server.kind},
                              {"version", server.version},
                              {"usual", server.usual},
                              {"models", server.models}});
  if (written) {
    out["written"] = ordered_json::array();
    for (const auto& file : written->files) out["written"].push_back(file.string());
    out["default_model"] = written->default_model;
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

// The models by these words: ids, names of the stores, or numbers of the list.
Result<std::vector<const ExaminedModel*>> picked(const Found& found, const std::vector<std::string>& words,
                                                 bool numbers) {
  const auto candidates = candidates_of(found);
  std::vector<const ExaminedModel*> out;
  const auto add = [&](const ExaminedModel* model) {
    if (std::ranges::find(out, model) == out.end()) out.push_back(model);
  };
  for (const std::string& word : words) {
    if (word == "all") {
      std::ranges::for_each(candidates, add);
      continue;
    }
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (numbers && error == std::errc() && end == word.data() + word.size() && number >= 1 &&
        number <= candidates.size()) {
      add(candidates[number - 1]);
      continue;
    }
    const auto model = std::ranges::find_if(found.models, [&](const ExaminedModel& one) {
      return one.id == word || one.found.name == word || std::ranges::find(one.also, word) != one.also.end();
    });
    if (model == found.models.end()) {
      std::vector<std::string_view> ids;
      for (const ExaminedModel* one : candidates) ids.push_back(one->id);
      return fail(ErrorCode::unsupported_value, "no model was found " + config::not_among(word, ids));
    }
    if (model->trouble)
      return fail(model->trouble->code, model->id + " is not read by this build: " + model->trouble->message);
    if (model->configured)
      return fail(ErrorCode::unsupported_value, model->id + " is in the configuration already");
    add(&*model);
  }
  return out;
}

std::vector<std::string> asked_for_words() {
  std::fprintf(stderr, "\nWhich of them shall Flyball serve? Numbers or ids, or \"all\": ");
  std::string line;
  std::getline(std::cin, line);
  std::ranges::replace(line, ',', ' ');
  std::istringstream words(line);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}

std::uint32_t longest_context(const ExaminedModel& model) {
  std::uint32_t out = 0;
  for (const ModelFit& fit : model.fits)
    if (fit.missing == 0) out = std::max(out, fit.longest_context);
  return out;
}

void print_written(const WrittenModels& written, const std::vector<const ExaminedModel*>& models,
                   const std::string& reload) {
  if (written.made_config) std::printf("wrote %s, the shipped configuration\n", written.config_file.c_str());
  for (const auto& file : written.files) std::printf("wrote %s\n", shown_path(file).c_str());
  if (!written.default_model.empty())
    std::printf("requests that name no model go to %s\n", written.default_model.c_str());
  const std::string& id = models.front()->id;
  std::printf("\nAsk it without a daemon:\n  flyball run --model %s \"Why is the sky blue?\"\n", id.c_str());
  std::printf(
      reload.empty() ? "Start the daemon:\n  flyball serve\n" : "Have the running daemon read it:\n  %s\n",
      reload.c_str());
}

int find_models(FindOptions o) {
  const std::filesystem::path config_file =
      o.config.empty() ? settings::find_config() : std::filesystem::path(o.config);
  const auto config = settings::config_at(config_file);
  if (!config) return report(config.error());
  auto found = find(o, *config, config_file);
  if (!found) return report(found.error());
  if (!o.write) {
    if (o.json)
      print_json(*found, {});
    else
      print_text(*found, o);
    return kOk;
  }
  const bool ask = o.picks.empty() && !o.all;
  if (candidates_of(*found).empty() && (ask || o.all)) {
    std::fprintf(stderr,
                 "flyball: nothing to write: no model here is read by this build and not configured yet\n");
    return kFailed;
  }
  if (ask && (!stdin_is_terminal() || o.json)) {
    std::fprintf(stderr,
                 "flyball: --write needs the ids of the models, or --all\nSee flyball models find --help.\n");
    return kUsage;
  }
  if (o.all) o.picks = {"all"};
  if (ask) {
    print_text(*found, o);
    std::fflush(stdout);
    o.picks = asked_for_words();
  }
  const auto models = picked(*found, o.picks, ask);
  if (!models) return report(models.error());
  if (models->empty()) return kOk;
  std::vector<NewModel> entries;
  for (const ExaminedModel* model : *models)
    entries.push_back({model->id, model->found.path, "", longest_context(*model)});
  const auto written = write_models(config_file, entries);
  if (!written) return report(written.error());
  if (o.json)
    print_json(*found, *written);
  else
    print_written(*written, *models, reload_command(*config, written->config_file));
  return kOk;
}

}  // namespace

void add_models_find_command(CLI::App& models_command, int& exit_code) {
  auto options = std::make_shared<FindOptions>();
  CLI::App* command = models_command.add_subcommand(
      "find", "The models of Ollama, LM Studio, Hugging Face and other folders, and which of them run here");
  command->add_option("models", options->picks, "With --write: the ids of the models to serve");
  command->add_option("--in", options->folders, "Look through this folder, too; may be repeated")
      ->allow_extra_args(false);
  CLI::Option* write = command->add_flag("--write", options->write,
                                         "Put the named models into config.d/; on a terminal, ask which");
  command->add_flag("--all", options->all, "With --write: all models that run here")->needs(write);
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
