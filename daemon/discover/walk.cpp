#include "daemon/discover/walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <set>
#include <utility>

namespace flyball::discover {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

// A file system whose files the kernel makes up.
bool made_up(int fd) {
  struct statfs fs {};
  if (::fstatfs(fd, &fs) != 0) return false;
  switch (static_cast<unsigned long>(fs.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case BPF_FS_MAGIC:
      return true;
    default:
      return false;
  }
}

}  // namespace

WalkEnd walk(
    const std::filesystem::path& root, const WalkLimits& limits,
    const std::function<bool(std::string_view)>& wanted,
    const std::function<void(const std::filesystem::path&, const std::vector<std::string>&)>& on_folder) {
  WalkEnd end;
  std::size_t kept = 0;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::deque<std::pair<std::filesystem::path, std::size_t>> waiting{{root, 0}};
  bool too_deep = false;
  while (!waiting.empty() && end.cut.empty()) {
    const auto [folder, depth] = std::move(waiting.front());
    waiting.pop_front();
    const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
    if (!open) {
      if (errno != ENOENT && errno != ENOTDIR && end.closed.size() < kMostClosed)
        end.closed.push_back({folder, errno});
      continue;
    }
    const int fd = ::dirfd(open.get());
    struct stat self {};
    if (::fstat(fd, &self) != 0 || !seen.emplace(self.st_dev, self.st_ino).second || made_up(fd)) continue;
    std::vector<std::string> names, inner;
    while (const dirent* entry = ::readdir(open.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (++end.entries > limits.entries) {
        end.cut = "more than " + std::to_string(limits.entries) + " files and folders";
        break;
      }
      bool is_folder = entry->d_type == DT_DIR;
      if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
        struct stat target {};
        is_folder = ::fstatat(fd, entry->d_name, &target, 0) == 0 && S_ISDIR(target.st_mode);
      }
      if (is_folder) {
        if (depth + 1 < limits.depth)
          inner.emplace_back(name);
        else
          too_deep = true;
      } else if (wanted(name)) {
        if (++kept > limits.wanted) {
          end.cut = "more than " + std::to_string(limits.wanted) + " model files";
          break;
        }
        names.emplace_back(name);
      }
    }
    std::ranges::sort(names);
    std::ranges::sort(inner);
    for (const std::string& name : inner) waiting.emplace_back(folder / name, depth + 1);
    if (!names.empty()) on_folder(folder, names);
  }
  if (end.cut.empty() && too_deep) end.cut = "folders more than " + std::to_string(limits.depth) + " deep";
  return end;
}

}  // namespace flyball::discover
