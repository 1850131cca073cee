#include "daemon/discover/places.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "config/yaml.hpp"
#include "daemon/discover/users.hpp"

namespace flyball::discover {
namespace {

namespace fs = std::filesystem;

// Without the slash at its end, so that it has a last name.
fs::path tidy(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// An absolute path, or one below the home; nullopt: neither.
std::optional<fs::path> path_in(std::string_view text, const fs::path& home) {
  if (text.starts_with("~/")) return tidy(home / text.substr(2));
  if (text.starts_with('/')) return tidy(text);
  return std::nullopt;
}

std::optional<fs::path> variable(const char* name, const fs::path& home) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : path_in(value, home);
}

// Units of Ollama's service, drop-ins last: a later one holds.
std::optional<fs::path> models_of_ollamas_service() {
  std::optional<fs::path> out;
  const auto read = [&](const fs::path& file) {
    const auto text = config::read_text_file(file);
    if (!text) return;
    if (auto models = ollama_models_in(*text)) out = std::move(models);
  };
  for (const char* const folder : {"/usr/lib/systemd/system", "/etc/systemd/system"}) {
    read(fs::path(folder) / "ollama.service");
    std::vector<fs::path> drop_ins;
    std::error_code failed;
    for (fs::directory_iterator it(fs::path(folder) / "ollama.service.d", failed), end; !failed && it != end;
         it.increment(failed))
      if (it->path().extension() == ".conf") drop_ins.push_back(it->path());
    std::ranges::sort(drop_ins);
    for (const fs::path& file : drop_ins) read(file);
  }
  return out;
}

// LM Studio's own folder: ~/.lmstudio, or the one that a pointer file names.
std::vector<fs::path> lm_studio_folders(const fs::path& home) {
  std::vector<fs::path> out{home / ".lmstudio"};
  if (auto text = config::read_text_file(home / ".lmstudio-home-pointer", 4096)) {
    while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
    if (auto folder = path_in(*text, home)) out.push_back(std::move(*folder));
  }
  return out;
}

}  // namespace

std::vector<fs::path> homes() {
  std::vector<fs::path> out;
  const auto add = [&](const fs::path& home) {
    if (home.is_absolute() && home != "/" && std::ranges::find(out, tidy(home)) == out.end())
      out.push_back(tidy(home));
  };
  if (const auto home = variable("HOME", "")) add(*home);
  if (const char* user = std::getenv("SUDO_USER"); user != nullptr && ::geteuid() == 0)
    if (const auto entry = user_named(user)) add(entry->home);
  if (const auto entry = user_named("ollama")) add(entry->home);
  add("/usr/share/ollama");  // the home that Ollama's installer gives its user
  return out;
}

std::optional<fs::path> ollama_models_in(std::string_view unit) {
  constexpr std::string_view kName = "OLLAMA_MODELS=";
  std::optional<fs::path> out;
  while (!unit.empty()) {
    const std::string_view line = unit.substr(0, unit.find('\n'));
    unit.remove_prefix(std::min(unit.size(), line.size() + 1));
    const auto at = line.find(kName);
    if (!line.starts_with("Environment=") || at == std::string_view::npos) continue;
    // Environment="OLLAMA_MODELS=/a b" or Environment=OLLAMA_MODELS=/a OTHER=1
    const char end = line[at - 1] == '"' || line[at - 1] == '\'' ? line[at - 1] : ' ';
    const std::string_view value = line.substr(at + kName.size());
    if (auto path = path_in(value.substr(0, value.find(end)), "/")) out = std::move(path);
  }
  return out;
}

std::optional<fs::path> downloads_folder_in(std::string_view settings) {
  const auto json = read_json(settings);
  if (!json || !json->is_object()) return std::nullopt;
  const auto folder = json->find("downloadsFolder");
  if (folder == json->end() || !folder->is_string()) return std::nullopt;
  return path_in(folder->get_ref<const std::string&>(), "/");
}

std::vector<StorePlace> known_places(std::span<const fs::path> homes) {
  std::vector<StorePlace> out;
  const auto add = [&](StoreKind kind, const std::optional<fs::path>& root) {
    if (!root) return;
    const StorePlace place{kind, tidy(*root)};
    if (std::ranges::find(out, place) == out.end()) out.push_back(place);
  };
  const fs::path home = homes.empty() ? fs::path("/") : homes.front();
  add(StoreKind::ollama, variable("OLLAMA_MODELS", home));
  add(StoreKind::ollama, models_of_ollamas_service());
  for (const fs::path& one : homes) add(StoreKind::ollama, one / ".ollama/models");
  for (const fs::path& one : homes) {
    for (const fs::path& folder : lm_studio_folders(one)) {
      if (const auto settings = config::read_text_file(folder / "settings.json"))
        add(StoreKind::lm_studio, downloads_folder_in(*settings));
      add(StoreKind::lm_studio, folder / "models");
    }
    add(StoreKind::lm_studio, one / ".cache/lm-studio/models");
  }
  const auto cache = variable("XDG_CACHE_HOME", home), hugging_face = variable("HF_HOME", home);
  add(StoreKind::hugging_face, variable("HF_HUB_CACHE", home));
  if (hugging_face) add(StoreKind::hugging_face, *hugging_face / "hub");
  if (cache) add(StoreKind::hugging_face, *cache / "huggingface/hub");
  for (const fs::path& one : homes) add(StoreKind::hugging_face, one / ".cache/huggingface/hub");
  add(StoreKind::folder, variable("LLAMA_CACHE", home));
  if (cache) add(StoreKind::folder, *cache / "llama.cpp");
  for (const fs::path& one : homes) add(StoreKind::folder, one / ".cache/llama.cpp");
  return out;
}

}  // namespace flyball::discover
