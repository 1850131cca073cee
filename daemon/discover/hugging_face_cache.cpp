#include "daemon/discover/hugging_face_cache.hpp"

#include <set>
#include <string>
#include <vector>

#include "daemon/discover/model_folder.hpp"
#include "daemon/discover/store_walk.hpp"

namespace flyball::discover {
namespace {

constexpr std::string_view kRepository = "models--";
constexpr std::string_view kIncomplete = ".incomplete";

// "Qwen/Qwen3-0.6B-GGUF" of "models--Qwen--Qwen3-0.6B-GGUF"; "": no model's folder.
std::string repository_of(std::string_view folder) {
  if (!is_repository_name(folder)) return "";
  std::string name(folder.substr(kRepository.size()));
  if (const auto dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
  return name;
}

}  // namespace

bool is_repository_name(std::string_view folder) {
  return folder.starts_with(kRepository);
}

void look_through_hugging_face(StoreContents& out, const WalkLimits& limits) {
  const auto wanted = [](std::string_view name) {
    return is_model_name(name) || name.ends_with(kIncomplete);
  };
  walk_store(out, out.root, limits, wanted,
             [&](const std::filesystem::path& folder, const std::vector<std::string>& names) {
               // models--ORG--NAME/snapshots/COMMIT/..., models--ORG--NAME/blobs
               std::vector<std::string> parts;
               for (const auto& part : folder.lexically_relative(out.root)) parts.push_back(part.string());
               const std::string repository = parts.empty() ? "" : repository_of(parts[0]);
               if (repository.empty() || parts.size() < 2) return;
               if (parts[1] == "blobs") {
                 for (const std::string& name : names)
                   if (name.ends_with(kIncomplete))
                     out.obstacles.push_back({Obstacle::Kind::unfinished, folder / name, repository,
                                              "is a download that has not ended",
                                              "end it with the program that began it, or remove the file"});
               } else if (parts[1] == "snapshots" && parts.size() >= 3) {
                 std::string prefix = repository + "/";
                 for (std::size_t i = 3; i < parts.size(); ++i) prefix += parts[i] + "/";
                 add_models(folder, names, prefix, out);
               }
             });
}

}  // namespace flyball::discover
