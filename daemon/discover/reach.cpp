#include "daemon/discover/reach.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <system_error>

namespace flyball::discover {
namespace {

void add_steps(const std::filesystem::path& path, std::vector<PathStep>& out) {
  std::filesystem::path at;
  for (const auto& part : path) {
    at /= part;
    struct stat s {};
    if (::stat(at.c_str(), &s) != 0) return;
    if (std::ranges::find(out, at, &PathStep::path) != out.end()) continue;
    const bool has_acl = ::getxattr(at.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
    out.push_back({at, s.st_mode, s.st_uid, s.st_gid, has_acl, S_ISDIR(s.st_mode)});
  }
}

}  // namespace

std::vector<PathStep> steps_to(const std::filesystem::path& path) {
  std::vector<PathStep> out;
  add_steps(path, out);
  std::error_code failed;
  if (const auto real = std::filesystem::canonical(path, failed); !failed) add_steps(real, out);
  return out;
}

std::vector<Closing> closed_to(const Reader& reader, std::span<const PathStep> steps) {
  std::vector<Closing> out;
  if (reader.uid == uid_t{0}) return out;
  for (const PathStep& step : steps) {
    if (step.has_acl) continue;
    const bool owner = reader.uid == step.uid;
    const bool group = std::ranges::find(reader.groups, step.gid) != reader.groups.end();
    const unsigned shift = owner ? 6 : group ? 3 : 0;
    const unsigned needed = step.folder ? 1U : 4U;  // folders on the way only lead on
    if ((step.mode >> shift & needed) == needed) continue;
    out.push_back({step.path, std::string(owner ? "u" : group ? "g" : "o") + (step.folder ? "+x" : "+r")});
  }
  return out;
}

}  // namespace flyball::discover
