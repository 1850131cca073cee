#include "daemon/discover/ollama_store.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "config/units.hpp"
#include "config/yaml.hpp"
#include "daemon/discover/ollama_manifest.hpp"
#include "daemon/discover/store_walk.hpp"

namespace flyball::discover {
namespace {

using Kind = Obstacle::Kind;

// The end of a blob's name while it is fetched. Its parts have a number behind it.
constexpr std::string_view kPartial = "-partial";
constexpr std::string_view kNotEnded = "is a download that has not ended";

// The file of a blob. Older stores wrote a colon.
std::filesystem::path blob_path(const std::filesystem::path& root, const std::string& digest) {
  const std::filesystem::path dash = root / "blobs" / ("sha256-" + digest),
                              colon = root / "blobs" / ("sha256:" + digest);
  std::error_code ignored;
  return !std::filesystem::exists(dash, ignored) && std::filesystem::exists(colon, ignored) ? colon : dash;
}

struct Manifest {
  std::filesystem::path file;
  std::string name, pull;  // "qwen3:8b"; the command that fetches it again
};

std::optional<Obstacle> obstacle_of(const OllamaManifest& manifest, const Manifest& at) {
  const auto unsupported = [&](std::string what) {
    return Obstacle{Kind::unsupported, at.file, at.name, std::move(what), ""};
  };
  if (manifest.single_tensors > 0)
    return unsupported("keeps its " + std::to_string(manifest.single_tensors) +
                       " tensors in files of their own, which no engine here reads");
  if (manifest.models.empty())
    return unsupported("has no weights on this machine: Ollama asks a server for it");
  if (manifest.models.size() > 1)
    return unsupported("has " + std::to_string(manifest.models.size()) +
                       " files of weights, which no engine here joins");
  if (manifest.adapter) return unsupported("has an adapter (LoRA), which no engine here applies");
  return std::nullopt;
}

void add_model(const OllamaManifest& manifest, const Manifest& at, StoreContents& out) {
  if (auto obstacle = obstacle_of(manifest, at)) return out.obstacles.push_back(std::move(*obstacle));
  const OllamaManifest::Blob& blob = manifest.models.front();
  const std::filesystem::path path = blob_path(out.root, blob.digest);
  const auto report = [&](Kind kind, std::string what, std::string remedy) {
    out.obstacles.push_back({kind, path, at.name, std::move(what), std::move(remedy)});
  };
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) {
    const int error = errno;
    std::error_code ignored;
    if (error == EACCES) return out.obstacles.push_back(closed_obstacle(path, at.name));
    if (std::filesystem::is_symlink(path, ignored))
      return report(Kind::dangling, "is a link to a file that is not there", at.pull);
    if (const auto partial = path.string() + std::string(kPartial); std::filesystem::exists(partial, ignored))
      return out.obstacles.push_back({Kind::unfinished, partial, at.name, std::string(kNotEnded), at.pull});
    return report(Kind::damaged, "lacks the file that its manifest names", at.pull);
  }
  if (!S_ISREG(s.st_mode)) return report(Kind::damaged, "is no file", at.pull);
  const auto bytes = static_cast<std::uint64_t>(s.st_size);
  if (bytes != blob.bytes)
    return report(
        Kind::damaged,
        "has " + std::to_string(bytes) + " bytes, and its manifest says " + std::to_string(blob.bytes),
        at.pull);
  std::vector<std::string> notes;
  if (manifest.projector) notes.emplace_back("images are left out: their part lies in another file");
  constexpr std::string_view kLatest = ":latest";
  const std::string stem =
      at.name.ends_with(kLatest) ? at.name.substr(0, at.name.size() - kLatest.size()) : at.name;
  out.models.push_back({at.name, stem, path, bytes, std::move(notes)});
}

// A shell reads the name as one word: it comes from anybody's folders.
bool is_plain(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '/' || c == ':';
  });
}

// The four parts of HOST/NAMESPACE/NAME/TAG.
std::optional<std::array<std::string, 4>> parts_of(const std::filesystem::path& relative) {
  std::array<std::string, 4> out;
  std::size_t n = 0;
  for (const auto& part : relative) {
    if (n == out.size()) return std::nullopt;
    out[n++] = part.string();
  }
  return n == out.size() ? std::optional(out) : std::nullopt;
}

}  // namespace

void look_through_ollama(StoreContents& out, const WalkLimits& limits) {
  const std::filesystem::path manifests = out.root / "manifests";
  const auto any = [](std::string_view) { return true; };
  walk_store(out, manifests, limits, any,
             [&](const std::filesystem::path& folder, const std::vector<std::string>& names) {
               for (const std::string& name : names) {
                 const std::filesystem::path file = folder / name;
                 const auto parts = parts_of(file.lexically_relative(manifests));
                 if (!parts) continue;  // .DS_Store and the like
                 Manifest at{file, ollama_name((*parts)[0], (*parts)[1], (*parts)[2], (*parts)[3]), ""};
                 if (is_plain(at.name)) at.pull = "ollama pull " + at.name;
                 const auto text = config::read_text_file(file, kMaxManifestBytes);
                 const auto manifest =
                     text ? read_ollama_manifest(*text) : Result<OllamaManifest>(pass(text));
                 if (manifest)
                   add_model(*manifest, at, out);
                 else
                   out.obstacles.push_back({Kind::damaged, file, at.name, manifest.error().message, at.pull});
               }
             });
  // Ollama writes the manifest of a model last.
  const auto partial = [](std::string_view name) {
    return name.starts_with("sha256") && name.ends_with(kPartial);
  };
  WalkLimits one_folder = limits;
  one_folder.depth = 1;
  walk_store(out, out.root / "blobs", one_folder, partial,
             [&](const std::filesystem::path& folder, const std::vector<std::string>& names) {
               for (const std::string& name : names)
                 if (std::ranges::find(out.obstacles, folder / name, &Obstacle::path) == out.obstacles.end())
                   out.obstacles.push_back({Kind::unfinished, folder / name, "", std::string(kNotEnded),
                                            "run ollama pull of its model again, or remove the file"});
             });
}

}  // namespace flyball::discover
