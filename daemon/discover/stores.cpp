#include "daemon/discover/stores.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "daemon/discover/hugging_face_cache.hpp"
#include "daemon/discover/model_folder.hpp"
#include "daemon/discover/ollama_store.hpp"
#include "daemon/discover/store_walk.hpp"

namespace flyball::discover {
namespace {

struct KindNames {
  StoreKind kind;
  std::string_view name, id;
};
constexpr std::array<KindNames, 4> kKinds{{{StoreKind::ollama, "Ollama", "ollama"},
                                           {StoreKind::lm_studio, "LM Studio", "lm_studio"},
                                           {StoreKind::hugging_face, "Hugging Face", "hugging_face"},
                                           {StoreKind::folder, "Folder", "folder"}}};

const KindNames& names_of(StoreKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}

std::optional<std::filesystem::path> absolute_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value != '/') return std::nullopt;
  return std::filesystem::path(value).lexically_normal();
}

std::filesystem::path home_in_table(const char* user) {
  std::array<char, 16 * 1024> buffer{};
  passwd entry{}, *found = nullptr;
  if (::getpwnam_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return found->pw_dir;
}

// "org/repo/" of the folder below a store's root; "" of the root.
std::string prefix_below(const std::filesystem::path& root, const std::filesystem::path& folder) {
  const std::string relative = folder.lexically_relative(root).string();
  return relative == "." || relative.empty() ? "" : relative + "/";
}

}  // namespace

std::string_view to_string(StoreKind kind) noexcept {
  return names_of(kind).name;
}
std::string_view id_of(StoreKind kind) noexcept {
  return names_of(kind).id;
}
std::string_view to_string(Obstacle::Kind kind) noexcept {
  constexpr std::array<std::string_view, 6> kNames{"unfinished", "dangling",    "damaged",
                                                   "closed",     "unsupported", "cut"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<std::filesystem::path> homes() {
  std::vector<std::filesystem::path> out;
  const auto add = [&](const std::filesystem::path& home) {
    if (home.is_absolute() && home != "/" && std::ranges::find(out, home) == out.end()) out.push_back(home);
  };
  if (const auto home = absolute_variable("HOME")) add(*home);
  if (const char* user = std::getenv("SUDO_USER"); user != nullptr && ::geteuid() == 0)
    add(home_in_table(user));
  add(home_in_table("ollama"));
  add("/usr/share/ollama");  // the home that Ollama's installer gives its user
  return out;
}

std::vector<StorePlace> known_places(std::span<const std::filesystem::path> homes) {
  std::vector<StorePlace> out;
  const auto add = [&](StoreKind kind, const std::filesystem::path& root) {
    const StorePlace place{kind, root.lexically_normal()};
    if (std::ranges::find(out, place) == out.end()) out.push_back(place);
  };
  if (const auto models = absolute_variable("OLLAMA_MODELS")) add(StoreKind::ollama, *models);
  for (const auto& home : homes) add(StoreKind::ollama, home / ".ollama/models");
  for (const auto& home : homes) add(StoreKind::lm_studio, home / ".lmstudio/models");
  for (const auto& home : homes) add(StoreKind::lm_studio, home / ".cache/lm-studio/models");
  if (const auto cache = absolute_variable("HF_HUB_CACHE")) add(StoreKind::hugging_face, *cache);
  if (const auto hf = absolute_variable("HF_HOME")) add(StoreKind::hugging_face, *hf / "hub");
  for (const auto& home : homes) add(StoreKind::hugging_face, home / ".cache/huggingface/hub");
  if (const auto cache = absolute_variable("LLAMA_CACHE")) add(StoreKind::folder, *cache);
  for (const auto& home : homes) add(StoreKind::folder, home / ".cache/llama.cpp");
  return out;
}

StoreContents look_through(const StorePlace& place, const WalkLimits& limits) {
  StoreContents out{place.kind, place.root, {}, {}};
  switch (place.kind) {
    case StoreKind::ollama:
      look_through_ollama(out, limits);
      break;
    case StoreKind::hugging_face:
      look_through_hugging_face(out, limits);
      break;
    case StoreKind::lm_studio:
    case StoreKind::folder:
      walk_store(out, place.root, limits, is_model_name,
                 [&](const std::filesystem::path& folder, const std::vector<std::string>& names) {
                   add_models(folder, names, prefix_below(place.root, folder), out);
                 });
  }
  std::ranges::sort(out.models, {}, [](const FoundModel& m) { return std::pair(m.name, m.path); });
  std::ranges::sort(out.obstacles, {}, &Obstacle::path);
  return out;
}

}  // namespace flyball::discover
