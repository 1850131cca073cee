#include "daemon/discover/model_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backends/model/split_name.hpp"
#include "config/ascii_lower.hpp"
#include "daemon/discover/store_walk.hpp"

namespace flyball::discover {
namespace {

constexpr std::string_view kGguf = ".gguf", kSafetensors = ".safetensors", kMlxConfig = "config.json";

// Ends of the names that browsers and downloaders give to files until they are whole.
constexpr std::array<std::string_view, 11> kUnfinished{
    ".part",  ".partial", ".incomplete", ".crdownload", ".download", ".downloading", ".downloadinprogress",
    ".aria2", ".tmp",     ".!qb",        ".opdownload"};

// aria2 keeps its notes beside a file of full size until all of its parts are there.
constexpr std::string_view kNotes = ".aria2";

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
    out.obstacles.push_back(closed_obstacle(file, name));
  return std::nullopt;
}

// The shards of one model that a folder has.
struct Shards {
  std::uint32_t count = 0;
  std::vector<std::uint32_t> numbers;  // from 1, in order
};

using SplitName = std::pair<std::string, std::uint32_t>;  // stem and count: a folder may have one stem twice

// "2, 3 and more" of the numbers that a split model lacks; "": none.
std::string missing_text(const Shards& shards) {
  constexpr std::size_t kShown = 5;
  std::string out;
  std::size_t missing = 0;
  for (std::uint32_t n = 1; n <= shards.count; ++n) {
    if (std::ranges::find(shards.numbers, n) != shards.numbers.end()) continue;
    if (++missing > kShown) return out + " and more";
    out += (out.empty() ? "" : ", ") + std::to_string(n);
  }
  return out;
}

// The same name scheme as of GGUF files: NAME-00001-of-00003.safetensors.
std::optional<model::ShardName> tensor_shard(const std::string& name) {
  return model::shard_name(name.substr(0, name.size() - kSafetensors.size()) + std::string(kGguf));
}

void add_split(const std::filesystem::path& folder, const std::string& stem, const Shards& shards,
               const std::string& prefix, StoreContents& out) {
  const model::ShardName name{(folder / stem).string(), 1, shards.count};
  const std::filesystem::path first = model::shard_path(name, 1);
  const std::string missing = missing_text(shards);
  // A merged model may have kept the name of its first shard: whoever reads the file finds out.
  const bool first_alone = shards.numbers == std::vector<std::uint32_t>{1};
  if (!missing.empty() && !first_alone) {
    out.obstacles.push_back({Obstacle::Kind::unfinished, first, prefix + stem,
                             "is one of " + std::to_string(shards.count) + " shards; missing: " + missing,
                             ""});
    return;
  }
  std::uint64_t all = 0;
  for (const std::uint32_t n : shards.numbers) {
    const auto bytes = bytes_of(model::shard_path(name, n), prefix + stem, out);
    if (!bytes) return;
    all += *bytes;
  }
  FoundModel model{prefix + stem, stem, first, all, {}};
  if (missing.empty() && shards.count > 1) model.notes.push_back(std::to_string(shards.count) + " shards");
  out.models.push_back(std::move(model));
}

}  // namespace

bool is_model_name(std::string_view name) {
  if (name == kMlxConfig) return true;
  const std::string lowered = ascii_lower(name);
  return lowered.ends_with(kGguf) || lowered.ends_with(kSafetensors) || is_unfinished(lowered);
}

void add_models(const std::filesystem::path& folder, const std::vector<std::string>& names,
                const std::string& prefix, StoreContents& out) {
  const bool has_config = std::ranges::find(names, kMlxConfig) != names.end();
  const std::string folder_name =
      prefix.empty() ? folder.filename().string() : prefix.substr(0, prefix.size() - 1);
  std::map<SplitName, Shards> splits, tensor_splits;
  std::set<std::string, std::less<>> unfinished;  // names beside which a downloader keeps its notes
  for (const std::string& name : names)
    if (name.ends_with(kNotes)) unfinished.insert(name.substr(0, name.size() - kNotes.size()));
  std::uint64_t tensor_bytes = 0;
  std::size_t tensor_files = 0;
  bool whole = true;
  for (const std::string& name : names) {
    const std::string lowered = ascii_lower(name);
    const std::filesystem::path file = folder / name;
    if (is_unfinished(lowered)) {
      out.obstacles.push_back({Obstacle::Kind::unfinished, file, prefix + name,
                               "is a download that has not ended",
                               "end or remove it with the program that began it"});
      whole = whole && lowered.find(kSafetensors) == std::string::npos;
    } else if (unfinished.contains(name)) {
      continue;
    } else if (lowered.ends_with(kSafetensors)) {
      if (!has_config) continue;
      if (const auto shard = tensor_shard(name)) {
        tensor_splits[{shard->stem, shard->count}].numbers.push_back(shard->number);
      }
      const auto bytes = bytes_of(file, prefix + name, out);
      tensor_bytes += bytes.value_or(0);
      ++tensor_files;
      whole = whole && bytes;
    } else if (lowered.ends_with(kGguf)) {
      if (lowered.find("mmproj") != std::string::npos) continue;
      if (const auto shard = model::shard_name(std::filesystem::path(name))) {
        splits[{shard->stem, shard->count}].numbers.push_back(shard->number);
      } else if (const auto bytes = bytes_of(file, prefix + name, out)) {
        out.models.push_back({prefix + name, file.stem().string(), file, *bytes, {}});
      }
    }
  }
  for (auto& [name, shards] : splits) {
    shards.count = name.second;
    add_split(folder, name.first, shards, prefix, out);
  }
  for (auto& [name, shards] : tensor_splits) {
    shards.count = name.second;
    const std::string missing = missing_text(shards);
    if (missing.empty()) continue;
    whole = false;
    out.obstacles.push_back({Obstacle::Kind::unfinished, folder, folder_name,
                             "has " + std::to_string(shards.numbers.size()) + " of " +
                                 std::to_string(shards.count) + " safetensors files; missing: " + missing,
                             ""});
  }
  if (has_config && tensor_files > 0 && whole)
    out.models.push_back(
        {folder_name, std::filesystem::path(folder_name).filename().string(), folder, tensor_bytes, {}});
}

}  // namespace flyball::discover
