#include "daemon/hub/shelf.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>

#include "backends/model/split_name.hpp"
#include "config/descriptor.hpp"
#include "daemon/hub/folder.hpp"
#include "daemon/hub/part.hpp"

namespace flyball::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 8;  // ORG/REPO and the folders of a repository
constexpr std::string_view kPart = ".part";

bool is_regular(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(file, ignored));
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code absent;
  const auto size = fs::file_size(file, absent);
  return absent ? 0 : size;
}

bool is_mlx(const fs::path& folder) {
  return is_regular(folder / "config.json") &&
         std::ranges::any_of(entries_of(folder),
                             [](const fs::path& entry) { return entry.extension() == ".safetensors"; });
}

std::vector<fs::path> regular_files(const fs::path& folder) {
  std::vector<fs::path> out = entries_of(folder);
  std::erase_if(out, [](const fs::path& entry) { return !is_regular(entry); });
  return out;
}

Stored stored(fs::path file, std::vector<fs::path> files) {
  Stored out{std::move(file), std::move(files), 0, false, std::nullopt};
  for (const fs::path& one : out.files) out.bytes += size_of(one);
  return out;
}

void walk(const fs::path& folder, int depth, std::map<fs::path, Stored>& found, std::error_code& failed) {
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path path = at->path();
    std::error_code ignored;
    const auto status = at->symlink_status(ignored);
    if (fs::is_directory(status)) {
      // A folder of another program may have such a name.
      if (const auto origin = read_origin(path.parent_path() / path.stem());
          path.extension() == kPart && origin) {
        Stored part = stored(path, regular_files(path));
        part.part = true;
        part.expected = origin->expected.size;
        found.emplace(path, std::move(part));
      } else if (is_mlx(path)) {
        found.emplace(path, stored(path, regular_files(path)));
      } else if (depth < kMaxDepth) {
        std::error_code hidden;  // a folder that this user may not read holds nothing of theirs
        walk(path, depth + 1, found, hidden);
      }
    } else if (fs::is_regular_file(status) && path.extension() == kPart) {
      Stored part = stored(path, {path});
      part.part = true;
      if (const auto origin = read_origin(path.parent_path() / path.stem()))
        part.expected = origin->expected.size;
      found.emplace(path, std::move(part));
    } else if (fs::is_regular_file(status) && path.extension() == ".gguf") {
      std::vector<fs::path> files = files_of(path);
      std::erase_if(files, [](const fs::path& one) { return !is_regular(one); });
      fs::path first = files.front();
      found.emplace(first, stored(first, std::move(files)));
    }
  }
}

Descriptor open_folder(int above, const fs::path& name) {
  return Descriptor(::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Every file of an open folder; a folder in it is a reason to stop.
Result<void> empty_folder(const Descriptor& folder, const fs::path& name) {
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again < 0 ? nullptr : ::fdopendir(again), &::closedir);
  if (!list) return std::unexpected(system_error(name, "read", errno));
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string_view own = entry->d_name;
    if (own == "." || own == "..") continue;
    if (::unlinkat(folder.get(), entry->d_name, 0) != 0)
      return std::unexpected(system_error(name / own, "removed", errno));
  }
  return {};
}

}  // namespace

std::vector<fs::path> files_of(const fs::path& model) {
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return regular_files(model);
  return model::shard_files(model);
}

fs::path stranger_in(const fs::path& model) {
  std::error_code ignored;
  if (!fs::is_directory(model, ignored)) return {};
  for (const fs::path& entry : entries_of(model)) {
    // Each fetched file has its digest beside it.
    fs::path file = entry;
    if (file.extension() == ".sha256") file.replace_extension();
    if (!is_regular(entry) || !is_regular(file) || !is_regular(digest_file(file))) return entry;
  }
  return {};
}

Result<std::vector<Stored>> stored_models(const fs::path& models_dir) {
  std::map<fs::path, Stored> found;
  std::error_code failed;
  walk(models_dir, 0, found, failed);
  if (failed && failed != std::errc::no_such_file_or_directory)
    return fail(ErrorCode::io_error, models_dir.string() + " cannot be read: " + failed.message());
  std::vector<Stored> out;
  for (auto& [file, one] : found) out.push_back(std::move(one));
  return out;
}

std::vector<std::string> users_of(const config::Config& config, const std::vector<fs::path>& files) {
  std::vector<std::string> out;
  std::error_code ignored;
  std::vector<fs::path> known;
  for (const fs::path& file : files) known.push_back(fs::weakly_canonical(file, ignored));
  for (const config::ModelEntry& model : config.models) {
    if (model.embedded) continue;
    std::vector<fs::path> own = files_of(model.path);
    own.push_back(model.path);
    if (std::ranges::any_of(own, [&](const fs::path& one) {
          return std::ranges::find(known, fs::weakly_canonical(one, ignored)) != known.end();
        }))
      out.push_back(model.id);
  }
  return out;
}

fs::path below(const fs::path& models_dir, const fs::path& file) {
  std::error_code failed;
  const fs::path root = fs::canonical(models_dir, failed);
  if (failed) return {};
  const fs::path folder = fs::canonical(fs::absolute(file, failed).parent_path(), failed);
  if (failed) return {};
  const fs::path inside = (folder / file.filename()).lexically_relative(root);
  return inside.empty() || *inside.begin() == ".." || *inside.begin() == "." ? fs::path() : inside;
}

Result<void> remove_below(const fs::path& models_dir, const fs::path& inside) {
  std::vector<Descriptor> folders;
  std::vector<fs::path> names;
  folders.emplace_back(::open(models_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  fs::path so_far = models_dir;
  for (const fs::path& part : inside) {
    if (part == ".." || part == "." || part.empty())
      return fail(ErrorCode::io_error, inside.string() + " is no path below " + models_dir.string());
    names.push_back(part);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!folders.back()) {
      if (errno == ENOENT) return {};
      return std::unexpected(system_error(so_far, "opened as a folder", errno));
    }
    so_far /= names[i];
    if (i + 1 < names.size()) folders.push_back(open_folder(folders.back().get(), names[i]));
  }
  if (names.empty() || !folders.back()) {
    if (errno == ENOENT) return {};
    return std::unexpected(system_error(so_far.parent_path(), "opened as a folder", errno));
  }
  const fs::path& last = names.back();
  if (::unlinkat(folders.back().get(), last.c_str(), 0) != 0) {
    if (errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return std::unexpected(system_error(so_far, "removed", errno));
    const Descriptor folder = open_folder(folders.back().get(), last);
    if (!folder) return std::unexpected(system_error(so_far, "opened as a folder", errno));
    if (auto emptied = empty_folder(folder, so_far); !emptied) return emptied;
    if (::unlinkat(folders.back().get(), last.c_str(), AT_REMOVEDIR) != 0)
      return std::unexpected(system_error(so_far, "removed", errno));
  }
  for (std::size_t i = folders.size(); i-- > 1;)  // those that are empty now
    if (::unlinkat(folders[i - 1].get(), names[i - 1].c_str(), AT_REMOVEDIR) != 0) break;
  return {};
}

}  // namespace flyball::hub
