#include "daemon/discover/stores.hpp"

#include <algorithm>
#include <array>
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

StorePlace place_of(const std::filesystem::path& folder) {
  constexpr int kLooked = 1000;  // names, of a folder that may be anything
  std::filesystem::path root = folder.lexically_normal();
  if (!root.has_filename()) root = root.parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(root / "manifests", ignored) &&
      std::filesystem::is_directory(root / "blobs", ignored))
    return {StoreKind::ollama, root};
  int n = 0;
  for (std::filesystem::directory_iterator it(root, ignored), end; it != end && n < kLooked;
       it.increment(ignored), ++n)
    if (is_repository_name(it->path().filename().string())) return {StoreKind::hugging_face, root};
  return {StoreKind::folder, root};
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
