// A folder and all below it, looked through without trust: links that lead in circles, trees without end and
// folders of a million names cost a bounded time and memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::discover {

struct WalkLimits {
  std::size_t depth = 10;           // folders within one another
  std::size_t entries = 2'000'000;  // names, of all folders together; about a second's work
  std::size_t wanted = 20'000;      // names that are kept
};

struct WalkEnd {
  std::size_t entries = 0;  // names that were read
  std::string cut;          // the limit that ended the walk, in words; "": everything was looked at
  struct Closed {
    std::filesystem::path folder;
    int error = 0;  // errno
  };
  std::vector<Closed> closed;  // at most kMostClosed
};
inline constexpr std::size_t kMostClosed = 100;

// Calls `on_folder` for each folder that has names which `wanted` accepts, sorted, `root` among them; outer
// folders come first. Links to folders are followed, each folder once, and file systems of the kernel's
// (/proc, /sys) are left out. A name may be that of a file, a link or anything else. A `root` that is absent
// has no folders.
WalkEnd walk(const std::filesystem::path& root, const WalkLimits& limits,
             const std::function<bool(std::string_view name)>& wanted,
             const std::function<void(const std::filesystem::path& folder,
                                      const std::vector<std::string>& names)>& on_folder);

}  // namespace flyball::discover
