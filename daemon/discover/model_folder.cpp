#include "daemon/discover/model_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <map>
#include <optional>

#include "backends/model/split_name.hpp"

namespace flyball::discover {
namespace {

constexpr std::string_view kGguf = ".gguf", kSafetensors = ".safetensors", kMlxConfig = "config.json";

// Ends of the names that browsers and downloaders give to files until they are whole.
constexpr std::array<std::string_view, 11> kUnfinished{
    ".part",  ".partial", ".incomplete", ".crdownload", ".download", ".downloading", ".downloadinprogress",
    ".aria2", ".tmp",     ".!qb",        ".opdownload"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_unfinished(const std::string& lowered) {
  return (lowered.find(kGguf) != std::string::npos || lowered.find(kSafetensors) != std::string::npos) &&
         std::ranges::any_of(kUnfinished, [&](std::string_view end) { return lowered.ends_with(end); });
}

struct Looked {
  std::uint64_t bytes = 0;
  bool dangling = false, regular = false;
  int error = 0;  // errno
};
Looked look_at(const std::filesystem::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) == 0)
    return {static_cast<std::uint64_t>(s.st_size), false, S_ISREG(s.st_mode), 0};
  const int error = errno;
  const bool link = ::lstat(file.c_str(), &s) == 0 && S_ISLNK(s.st_mode);
  return {0, link && (error == ENOENT || error == ELOOP || error == ENOTDIR), false, error};
}

// The file is whole as far as its folder tells; else an obstacle says why not.
std::optional<std::uint64_t> bytes_of(const std::filesystem::path& file, const std::string& name,
                                      StoreContents& out) {
  const Looked looked = look_at(file);
  if (looked.regular) return looked.bytes;
  if (looked.dangling)
    out.obstacles.push_back(
        {Obstacle::Kind::dangling, file, name, "is a link to a file that is not there", ""});
  else if (looked.error == EACCES)
    out.obstacles.push_back({Obstacle::Kind::closed, file, name, "cannot be looked at by this user", ""});
  return std::nullopt;
}

// All shards of a split model, or why it is not whole.
std::optional<std::uint64_t> bytes_of_shards(const model::ShardName& shards, const std::string& name,
                                             StoreContents& out) {
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t n = 1; n <= shards.count; ++n) {
    const Looked looked = look_at(model::shard_path(shards, n));
    if (looked.regular)
      bytes += looked.bytes;
    else
      missing.push_back(n);
  }
  if (missing.empty()) return bytes;
  // A merged model may have kept the name of its first shard: whoever reads the file finds out.
  if (missing.size() + 1 == shards.count && missing.front() == 2) return bytes;
  std::string which;
  for (std::size_t i = 0; i < missing.size() && i < 5; ++i)
    which += (i == 0 ? "" : ", ") + std::to_string(missing[i]);
  out.obstacles.push_back({Obstacle::Kind::unfinished, model::shard_path(shards, 1), name,
                           "lacks " + std::to_string(missing.size()) + " of its " +
                               std::to_string(shards.count) + " shards: " + which +
                               (missing.size() > 5 ? " and more" : ""),
                           ""});
  return std::nullopt;
}

}  // namespace

bool is_model_name(std::string_view name) {
  if (name == kMlxConfig) return true;
  const std::string lowered = lower(name);
  return lowered.ends_with(kGguf) || lowered.ends_with(kSafetensors) || is_unfinished(lowered);
}

void add_models(const std::filesystem::path& folder, const std::vector<std::string>& names,
                const std::string& prefix, StoreContents& out) {
  const bool has_config = std::ranges::find(names, kMlxConfig) != names.end();
  std::map<std::string, model::ShardName> splits;  // by stem
  std::uint64_t tensor_bytes = 0;
  std::size_t tensor_files = 0;
  bool whole = true;
  const std::string folder_name =
      prefix.empty() ? folder.filename().string() : prefix.substr(0, prefix.size() - 1);
  for (const std::string& name : names) {
    const std::string lowered = lower(name);
    const std::filesystem::path file = folder / name;
    if (is_unfinished(lowered)) {
      out.obstacles.push_back({Obstacle::Kind::unfinished, file, prefix + name,
                               "is a download that has not ended",
                               "end or remove it with the program that began it"});
      whole = whole && lowered.find(kSafetensors) == std::string::npos;
    } else if (lowered.ends_with(kSafetensors)) {
      if (!has_config) continue;
      if (const auto bytes = bytes_of(file, prefix + name, out))
        tensor_bytes += *bytes, ++tensor_files;
      else
        whole = false;
    } else if (lowered.ends_with(kGguf)) {
      if (lowered.find("mmproj") != std::string::npos) continue;
      if (auto shards = model::shard_name(file)) {
        splits.emplace(shards->stem, std::move(*shards));
      } else if (const auto bytes = bytes_of(file, prefix + name, out)) {
        out.models.push_back({prefix + name, file.stem().string(), file, *bytes, {}});
      }
    }
  }
  for (const auto& [stem, shards] : splits) {
    const std::filesystem::path first = model::shard_path(shards, 1);
    const std::string name = prefix + std::filesystem::path(stem).filename().string();
    if (const auto bytes = bytes_of_shards(shards, name, out))
      out.models.push_back({name,
                            std::filesystem::path(stem).filename().string(),
                            first,
                            *bytes,
                            {std::to_string(shards.count) + " shards"}});
  }
  if (has_config && tensor_files > 0 && whole)
    out.models.push_back(
        {folder_name, std::filesystem::path(folder_name).filename().string(), folder, tensor_bytes, {}});
}

}  // namespace flyball::discover
