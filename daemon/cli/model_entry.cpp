#include "daemon/cli/model_entry.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <system_error>

#include "config/app_models.hpp"
#include "config/terminal_text.hpp"
#include "config/utf8.hpp"
#include "daemon/cli/operators_file.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/store/state_lock.hpp"

namespace flyball::cli {
namespace {

Result<void> check_model(const NewModel& model) {
  if (auto ok = check_id(model.id, "id"); !ok) return pass(ok);
  for (const std::string& alias : model.aliases)
    if (auto ok = check_id(alias, "aliases"); !ok) return pass(ok);
  const std::string path = model.path.string();
  if (!is_utf8(path) || std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    return fail(ErrorCode::unsupported_value,
                "the path of " + model.id +
                    " has a control character or is not UTF-8, and YAML cannot hold it: rename the file, or "
                    "make a symbolic link to it");
  return {};
}

std::string entry_text(const NewModel& model, const std::string& default_model) {
  std::string out =
      "schema: flyball.config/v1\n"
      "# Written by `flyball models`. docs/manifest.md describes every key.\n"
      "models:\n"
      "  " +
      yaml_id(model.id) + ":\n    path: " + yaml_quoted(model.path.string()) + "\n";
  if (!model.aliases.empty()) {
    out += "    aliases: [";
    for (const std::string& alias : model.aliases) out += (out.back() == '[' ? "" : ", ") + yaml_id(alias);
    out += "]\n";
  }
  if (!model.sha256.empty()) out += "    sha256: " + yaml_quoted(model.sha256) + "\n";
  constexpr std::uint32_t kServed = 4096;  // tokens, of a model without `context`
  if (model.longest > kServed)
    out += "    # Tokens of a sequence. Without this line " + std::to_string(kServed) + "; " +
           std::to_string(model.longest) +
           " fitted here when this file was written.\n    # context: " + std::to_string(model.longest) + "\n";
  if (!default_model.empty())
    out += "# For requests that name no model. The demo model answered them before.\ndefault_model: " +
           yaml_id(default_model) + "\n";
  return out;
}

// The first name of config.d/model-ID.yaml that no file has: two ids may differ in / and : alone.
std::filesystem::path free_name(const std::filesystem::path& folder, const std::string& id) {
  const std::string stem = "model-" + file_stem(id);
  std::filesystem::path file = folder / (stem + ".yaml");
  std::error_code ignored;
  for (int n = 2; std::filesystem::exists(std::filesystem::symlink_status(file, ignored)); ++n)
    file = folder / (stem + "-" + std::to_string(n) + ".yaml");
  return file;
}

// The demo model answers requests that name none, or nothing does.
bool has_own_default(const config::Config& config) {
  const auto model = std::ranges::find_if(config.models, [&](const config::ModelEntry& entry) {
    return config::is_called(entry, config.default_model);
  });
  return model != config.models.end() && !model->embedded;
}

// New files, which go again unless all of them were made and belong together.
class NewFiles {
 public:
  NewFiles() = default;
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  ~NewFiles() {
    if (kept_) return;
    for (const std::filesystem::path& file : made_) ::unlink(file.c_str());
    for (const std::filesystem::path& folder : folders_)
      ::rmdir(folder.c_str());  // fails where it is not empty
  }
  Result<void> write(const std::filesystem::path& file, std::string_view text) {
    std::error_code ignored;
    std::vector<std::filesystem::path> absent;
    for (auto folder = file.parent_path();
         folder.has_relative_path() && !std::filesystem::exists(folder, ignored);
         folder = folder.parent_path())
      absent.push_back(folder);
    folders_.insert(folders_.begin(), absent.begin(), absent.end());
    if (auto ok = write_new(file, std::string(text), "another program has just made it; try again"); !ok)
      return pass(ok);
    made_.push_back(file);
    return {};
  }
  void keep() { kept_ = true; }

 private:
  std::vector<std::filesystem::path> made_, folders_;  // folders: inner ones first
  bool kept_ = false;
};

}  // namespace

std::string model_id_from(std::string_view name) {
  constexpr std::size_t kMostBytes = 128;  // of an id
  std::string out;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    const bool divides = c == ':' || c == '/';
    if ((c == '.' || divides) && !out.empty() && out.back() == '-') out.pop_back();
    if (plain || (divides && !out.empty()))
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
    if (out.size() == kMostBytes) break;
  }
  while (!out.empty() && !std::isalnum(static_cast<unsigned char>(out.back()))) out.pop_back();
  while (!out.empty() && !std::isalnum(static_cast<unsigned char>(out.front()))) out.erase(0, 1);
  return out.empty() ? "model" : out;
}

Result<WrittenModels> write_models(const std::filesystem::path& config_file,
                                   std::span<const NewModel> models) {
  WrittenModels out;
  out.config_file = config_file.empty() ? settings::own_config() : config_file;
  if (out.config_file.empty())
    return fail(ErrorCode::io_error, "neither HOME nor XDG_CONFIG_HOME is set: name a file with --config");
  for (const NewModel& model : models)
    if (auto ok = check_model(model); !ok) return pass(ok);
  std::error_code ignored;
  const bool absent = !std::filesystem::exists(out.config_file, ignored);
  const auto before = settings::config_at(absent ? std::filesystem::path() : out.config_file);
  if (!before) return pass(before);
  for (const NewModel& model : models)
    if (std::ranges::any_of(before->models,
                            [&](const config::ModelEntry& one) { return config::is_called(one, model.id); }))
      return fail(
          ErrorCode::config_invalid,
          "the configuration has a model " + model.id + " already: choose another id, or remove that one", {},
          before->place("models." + model.id));
  NewFiles files;
  if (absent) {
    if (auto ok = files.write(out.config_file, config::default_config_yaml()); !ok) return pass(ok);
    out.made_config = true;
    // The shipped example app is a file from now on, so that `app new` puts others beside it.
    const std::filesystem::path apps = out.config_file.parent_path() / "apps.d";
    if (!std::filesystem::exists(apps, ignored))
      if (auto ok = files.write(apps / "example.yaml", config::default_app_yaml()); !ok) return pass(ok);
  }
  const std::filesystem::path folder = out.config_file.parent_path() / "config.d";
  if (!models.empty() && !has_own_default(*before)) out.default_model = models.front().id;
  for (const NewModel& model : models) {
    const std::filesystem::path file = free_name(folder, model.id);
    if (auto ok = files.write(file, entry_text(model, out.files.empty() ? out.default_model : "")); !ok)
      return pass(ok);
    out.files.push_back(file);
  }
  if (auto after = config::load_config(out.config_file); !after) return pass(after);
  files.keep();
  return out;
}

std::string ask_text(const std::string& id, const std::filesystem::path& path, const std::string& config) {
  return "\nAsk it without a daemon:\n  flyball run --model " +
         (config.empty() && !id.empty() ? id : shell_word(terminal_text(path.string()))) +
         " \"Why is the sky blue?\"\n";
}

std::string serve_text(const std::string& reload, bool made_config, const std::string& config) {
  const std::string serve =
      "  flyball serve" + (config.empty() ? "" : " --config " + shell_word(terminal_text(config))) + "\n";
  if (reload.empty()) return "Start the daemon:\n" + serve;
  if (made_config)
    return "A daemon runs on the shipped configuration. Stop it, and start it on this one:\n" + serve;
  return "Have the running daemon read it, if it serves this configuration:\n  " + reload + "\n";
}

std::string reload_command(const config::Config& config, const std::filesystem::path& config_file) {
  constexpr std::string_view kProcess = "process ";
  std::error_code ignored;
  // systemd keeps this link while the unit runs.
  if (config_file.parent_path() == "/etc/flyball" &&
      std::filesystem::exists(
          std::filesystem::symlink_status("/run/systemd/units/invocation:flyball.service", ignored)))
    return "systemctl reload flyball";
  const auto state = config.state_dir.empty() ? settings::default_state_dir() : config.state_dir;
  if (state.empty()) return "";
  const auto daemon = store::running_daemon(state);
  return daemon && daemon->starts_with(kProcess) ? "kill -HUP " + daemon->substr(kProcess.size()) : "";
}

}  // namespace flyball::cli
