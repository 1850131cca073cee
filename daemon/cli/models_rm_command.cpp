// `flyball models rm`: a model out of the configuration, and its fetched files off the disk where nothing
// else uses them.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/app_models.hpp"
#include "config/descriptor.hpp"
#include "config/name_list.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/model_entry.hpp"
#include "daemon/cli/models_folder.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/folder.hpp"
#include "daemon/hub/part.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::cli {
namespace {

struct RmOptions {
  std::string name, config;
  bool keep_file = false, json = false;
};

struct Removed {
  std::string id;
  std::filesystem::path entry;               // of the configuration, "" where it had none
  std::vector<std::filesystem::path> files;  // off the disk
  std::string kept;                          // why the files stay, "" where they do not
  std::string reload;
};

// The file of a "file:line:column".
std::filesystem::path file_of_place(std::string_view place) {
  for (int i = 0; i < 2; ++i) {
    const std::size_t colon = place.rfind(':');
    if (colon == std::string_view::npos) return {};
    place = place.substr(0, colon);
  }
  return place;
}

// True where `flyball models` wrote this file, and it holds this model alone still.
bool is_our_entry(const std::filesystem::path& file, const std::string& id) {
  const auto text = config::read_text_file(file);
  const auto root = text ? config::parse_yaml(*text, file.string()) : Result<config::Node>(pass(text));
  if (!root || ("\n" + *text).find("\n# Written by `flyball models`") == std::string::npos) return false;
  const config::Node* const models = root->find("models");
  return models && models->entries.size() == 1 && models->entries.front().key == id &&
         std::ranges::all_of(root->entries, [](const config::Entry& entry) {
           return entry.key == "schema" || entry.key == "models" || entry.key == "default_model";
         });
}

// The file that `flyball models` wrote for this model; config_invalid, with the place, where a person did.
Result<std::filesystem::path> written_entry(const ModelsFolder& folder, const std::string& id) {
  const std::string place = folder.config.place("models." + id);
  const std::filesystem::path file = file_of_place(place);
  std::error_code ignored;
  if (!folder.config_file.empty() && file.filename().string().starts_with("model-") &&
      std::filesystem::equivalent(file.parent_path(), folder.config_file.parent_path() / "config.d",
                                  ignored) &&
      is_our_entry(file, id))
    return file;
  return fail(ErrorCode::config_invalid,
              (place.empty() || folder.config_file.empty()
                   ? "the shipped configuration has the model " + id + ": "
                   : "a person wrote the model " + id + ", or more beside it: ") +
                  "remove it there, and then its file by its path",
              {}, place.empty() ? "the shipped config.yaml" : place);
}

// Takes a file out of the configuration, which has to be right without it. A hidden file is not read, so that
// the configuration can be looked at before anything is lost.
Result<void> drop_entry(const std::filesystem::path& config_file, const std::filesystem::path& entry) {
  const std::filesystem::path aside = entry.parent_path() / ("." + entry.filename().string() + ".removed");
  if (::rename(entry.c_str(), aside.c_str()) != 0)
    return std::unexpected(hub::system_error(entry, "removed", errno));
  const auto back = [&](Error error) -> Result<void> {
    ::rename(aside.c_str(), entry.c_str());
    error.message = "without " + entry.string() + " the configuration is wrong: " + error.message;
    return std::unexpected(std::move(error));
  };
  const auto after = config::load_config(config_file);
  if (!after) return back(after.error());
  const auto apps = config::apps_of(*after);
  if (!apps) return back(apps.error());
  if (const auto mistakes = config::cross_check(*after, *apps); !mistakes.empty())
    return back(mistakes.front());
  ::unlink(aside.c_str());
  return {};
}

// A model's files with their digests, and with what pulls note beside them.
std::vector<std::filesystem::path> with_companions(const std::vector<std::filesystem::path>& files) {
  std::vector<std::filesystem::path> out;
  for (const std::filesystem::path& file : files) {
    for (std::filesystem::path& one : hub::companions_of(file)) out.push_back(std::move(one));
    out.push_back(file);
  }
  return out;
}

Result<void> remove_files(const ModelsFolder& folder, const std::vector<std::filesystem::path>& files,
                          Removed& removed) {
  std::error_code ignored;
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) continue;
    const std::filesystem::path inside = hub::below(folder.models_dir, file);
    if (inside.empty())
      return fail(ErrorCode::io_error, file.string() + " does not lie in " + folder.models_dir.string() +
                                           ", and nothing else is removed");
    if (auto gone = hub::remove_below(folder.models_dir, inside); !gone) return gone;
    removed.files.push_back(file);
  }
  return {};
}

// The files that go with a model, held so that no pull writes them meanwhile.
struct Leaving {
  std::vector<std::filesystem::path> files;
  std::vector<hub::Part> parts;
  std::string kept;  // why they stay; "": they go
};

// Nothing is removed yet. A model's files stay where another model uses them, or they were not fetched.
// but_for: the id that leaves. io_error: another process fetches them. unsupported_value: more lies among
// them.
Result<Leaving> leaving_files(const ModelsFolder& folder, const std::filesystem::path& model,
                              const std::string& but_for) {
  Leaving out;
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(model, ignored);
  const auto files = hub::files_of(model);
  auto used = files;
  used.push_back(model);
  auto users = hub::users_of(folder.config, used);
  std::erase(users, but_for);
  if (!users.empty()) {
    out.kept = "the model " + users.front() + " uses it";
    return out;
  }
  if (hub::below(folder.models_dir, model).empty()) {
    out.kept = "it does not lie in " + folder.models_dir.string();
    return out;
  }
  if (const auto link = std::ranges::find_if(
          used,
          [&](const std::filesystem::path& file) { return std::filesystem::is_symlink(file, ignored); });
      link != used.end()) {
    out.kept = link->string() + " is a symbolic link, which a person made";
    return out;
  }
  if (const auto stranger = hub::stranger_in(model); !stranger.empty())
    return fail(
        ErrorCode::unsupported_value,
        stranger.string() + " was not fetched with the model: move it away, or keep all with --keep-file");
  if (directory) {
    out.files = {hub::origin_file(model), model};
    return out;
  }
  out.files = with_companions(files);
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file, ignored)) continue;
    auto part = hub::Part::open(file);
    if (!part) return pass(part);
    out.parts.push_back(std::move(*part));
  }
  return out;
}

Result<void> remove_model_files(const ModelsFolder& folder, Leaving leaving, Removed& removed) {
  removed.kept = leaving.kept;
  for (hub::Part& part : leaving.parts) {
    part.remove_leftovers();
    part.remove();
  }
  return remove_files(folder, leaving.files, removed);
}

Result<Removed> remove_by_path(const RmOptions& options, const ModelsFolder& folder) {
  Removed out;
  if (options.keep_file)
    return fail(ErrorCode::unsupported_value,
                "--keep-file leaves the file of a model that is removed by its id, and " +
                    config::quoted(terminal_text(options.name)) + " is a file: leave out one of both");
  const std::filesystem::path file = std::filesystem::absolute(options.name);
  if (hub::below(folder.models_dir, file).empty())
    return fail(ErrorCode::unsupported_value, "there is no model " + config::quoted(options.name) +
                                                  ", and no such file in " + folder.models_dir.string() +
                                                  " (flyball models list shows both)");
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored)))
    return fail(ErrorCode::unsupported_value,
                file.string() + " is absent (flyball models list shows what is there)");
  if (std::filesystem::is_symlink(file, ignored))
    return fail(ErrorCode::unsupported_value,
                file.string() + " is a symbolic link, which no pull makes: remove it with rm");
  const auto known = std::ranges::find(
      folder.stored, std::filesystem::weakly_canonical(file, ignored),
      [&](const hub::Stored& one) { return std::filesystem::weakly_canonical(one.file, ignored); });
  if (known == folder.stored.end())
    return fail(ErrorCode::unsupported_value,
                file.string() + " is neither a model, nor its first shard, nor a part of one");
  auto files = known->files;
  files.push_back(known->file);
  if (const auto users = hub::users_of(folder.config, files); !users.empty())
    return fail(
        ErrorCode::config_invalid,
        "the model " + users.front() + " uses " + file.string() + ": flyball models rm " + users.front(), {},
        folder.config.place("models." + users.front()));
  if (known->part) {
    if (std::filesystem::is_directory(file, ignored)) {
      const Descriptor lock(::open(file.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
        return fail(ErrorCode::io_error, file.string() + " is being fetched by another process: wait for it");
      const std::filesystem::path marker = hub::origin_file(file.parent_path() / file.stem());
      if (auto gone = remove_files(folder, {file, marker}, out); !gone) return pass(gone);
      return out;
    }
    const auto part = hub::Part::open(file.parent_path() / file.stem());  // nobody fetches it now
    if (!part) return pass(part);
    part->remove_leftovers();
    if (auto gone = remove_files(folder, {hub::origin_file(part->file()), file}, out); !gone)
      return pass(gone);
    return out;
  }
  auto leaving = leaving_files(folder, known->file, "");
  if (!leaving) return pass(leaving);
  if (auto gone = remove_model_files(folder, std::move(*leaving), out); !gone) return pass(gone);
  return out;
}

Result<Removed> remove_model(const RmOptions& options) {
  const auto folder = models_folder(options.config);
  if (!folder) return pass(folder);
  const auto& models = folder->config.models;
  const auto model = std::ranges::find(models, options.name, &config::ModelEntry::id);
  if (model == models.end()) {
    if (options.name.find('/') != std::string::npos || options.name.ends_with(".part") ||
        options.name.ends_with(".gguf"))
      return remove_by_path(options, *folder);
    std::vector<std::string_view> ids;
    for (const config::ModelEntry& one : models) ids.push_back(one.id);
    return fail(ErrorCode::unsupported_value,
                "the configuration has no model " + config::not_among(options.name, ids));
  }
  const auto entry = written_entry(*folder, model->id);
  if (!entry) return pass(entry);
  Removed out;
  out.id = model->id;
  auto leaving =
      options.keep_file ? Leaving{{}, {}, "--keep-file"} : leaving_files(*folder, model->path, model->id);
  if (!leaving) return pass(leaving);
  if (auto dropped = drop_entry(folder->config_file, *entry); !dropped) return pass(dropped);
  out.entry = *entry;
  if (auto gone = remove_model_files(*folder, std::move(*leaving), out); !gone) return pass(gone);
  out.reload = reload_command(folder->config, folder->config_file);
  return out;
}

std::string removed_text(const Removed& removed) {
  std::string out;
  if (!removed.entry.empty()) out += "removed  " + terminal_text(removed.entry.string()) + "\n";
  for (const std::filesystem::path& file : removed.files)
    out += "removed  " + terminal_text(file.string()) + "\n";
  if (!removed.kept.empty()) out += "The model's file stays: " + removed.kept + ".\n";
  if (!removed.reload.empty()) out += "\nHave the running daemon read it:\n  " + removed.reload + "\n";
  return out;
}

std::string removed_json(const Removed& removed) {
  nlohmann::ordered_json out{{"model", removed.id},
                             {"config_file", removed.entry.string()},
                             {"removed", nlohmann::ordered_json::array()},
                             {"kept", removed.kept},
                             {"reload", removed.reload}};
  for (const std::filesystem::path& file : removed.files) out["removed"].push_back(file.string());
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int run_rm(const RmOptions& options) {
  const auto removed = remove_model(options);
  if (!removed) return report(terminal_text(removed.error()));
  const std::string out = options.json ? removed_json(*removed) : removed_text(*removed);
  return std::fputs(out.c_str(), stdout) < 0 ? kIo : kOk;
}

}  // namespace

void add_models_rm_command(CLI::App& models_command, int& exit_code) {
  auto options = std::make_shared<RmOptions>();
  CLI::App* command = models_command.add_subcommand(
      "rm", "Remove a model from the configuration, and its fetched files where nothing else uses them");
  command->add_option("model", options->name, "A model's id, or a file of the folder of fetched models")
      ->required();
  command->add_flag("--keep-file", options->keep_file, "Leave the model's files on the disk");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  flyball models rm Qwen3-0.6B-Q8_0\n"
      "  flyball models rm ~/.local/share/flyball/models/ORG/REPO/FILE.gguf.part\n"
      "\n"
      "Only files in models_dir are removed. Exit code 64: no such model or file; 74: a file cannot be\n"
      "removed; 78: a person wrote the entry, or the configuration would be wrong without it.");
  command->callback([options, &exit_code] { exit_code = run_rm(*options); });
}

}  // namespace flyball::cli
