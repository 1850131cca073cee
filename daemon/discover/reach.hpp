// The permissions that keep a user, such as the daemon's under systemd, from a file: the file's own and those
// of every folder on the way.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flyball::discover {

struct Reader {
  std::string name;          // for messages: "the user me", "the service"
  std::optional<uid_t> uid;  // nullopt: a user of no name yet (DynamicUser), in no group of the file's
  std::vector<gid_t> groups;
};

// A user of this machine with all groups; nullopt: there is none of this name.
std::optional<Reader> reader_named(const std::string& user);
// The user that the daemon's unit runs as; nullopt: the unit is not installed. Its user is dynamic: while the
// service does not run, it has no number.
std::optional<Reader> service_reader();

// The first folder on the way to `path`, or `path` itself, that this process may not search; "": there is
// none.
std::filesystem::path first_closed(const std::filesystem::path& path);

// One name on the way to a file.
struct PathStep {
  std::filesystem::path path;
  mode_t mode = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  bool has_acl = false;  // its permissions say more than its mode: nothing is claimed of it
  bool folder = false;
};
// The names of `path` as it is written and of the file that its links lead to, up to the first one that this
// process may not look at.
std::vector<PathStep> steps_to(const std::filesystem::path& path);

// A name on the way that keeps a reader out, and the change that lets it through, in chmod's terms: "o+x".
struct Closing {
  std::filesystem::path path;
  std::string change;
  uid_t owner = 0;  // may make it
  bool operator==(const Closing&) const = default;
};
// In order. Pure.
std::vector<Closing> closed_to(const Reader& reader, std::span<const PathStep> steps);

}  // namespace flyball::discover
