#include "daemon/discover/reach.hpp"

#include <grp.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "daemon/discover/users.hpp"

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

std::optional<Reader> reader_named(const std::string& user) {
  const auto entry = user_named(user);
  if (!entry) return std::nullopt;
  constexpr int kMostGroups = 1024;
  Reader out{"the user " + user, entry->uid, std::vector<gid_t>(kMostGroups)};
  int n = kMostGroups;  // getgrouplist leaves what it found, at most so many
  ::getgrouplist(user.c_str(), entry->gid, out.groups.data(), &n);
  out.groups.resize(static_cast<std::size_t>(std::clamp(n, 0, kMostGroups)));
  return out;
}

std::optional<Reader> service_reader() {
  std::error_code ignored;
  for (const char* const folder : {"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"})
    if (std::filesystem::exists(std::filesystem::path(folder) / "flyball.service", ignored)) {
      Reader out = reader_named("flyball").value_or(Reader());
      out.name = "the service";
      return out;
    }
  return std::nullopt;
}

std::filesystem::path first_closed(const std::filesystem::path& path) {
  std::filesystem::path at;
  for (const auto& part : path) {
    at /= part;
    if (::access(at.c_str(), X_OK) != 0 && errno == EACCES) return at;
  }
  return ::access(path.c_str(), R_OK) != 0 && errno == EACCES ? path : std::filesystem::path();
}

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
    const char who = owner ? 'u' : group ? 'g' : 'o';
    const unsigned shift = owner ? 6 : group ? 3 : 0;
    const unsigned needed = step.folder ? 1U : 4U;  // folders on the way only lead on
    if ((step.mode >> shift & needed) == needed) continue;
    out.push_back({step.path, who + std::string(step.folder ? "+x" : "+r"), step.uid});
  }
  return out;
}

}  // namespace flyball::discover
