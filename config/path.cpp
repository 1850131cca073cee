#include "config/path.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace flyball::config {
namespace {

bool names_home(std::string_view written) {
  return written == "~" || written.starts_with("~/");
}

bool matches_path(std::string_view s) {
  if (s.starts_with('$') || (s.starts_with('~') && !names_home(s))) return false;
  // A NUL would end the path early, and a line break is a slip of the YAML around it.
  return std::ranges::none_of(s, [](unsigned char c) { return c < 0x20; });
}
const Form kPath{
    "a path (a leading ~/ is the home directory; ~user and variables such as $HOME are not expanded, and a "
    "name that truly begins with ~ or $ is written ./~name)",
    "^(~(/.*)?|[^~$].*)$", &matches_path};

std::optional<std::filesystem::path> home_directory() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') return home;
  char buffer[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr &&
      found->pw_dir != nullptr && *found->pw_dir == '/')
    return found->pw_dir;
  return std::nullopt;
}

}  // namespace

Shape path(std::int64_t max_bytes) {
  return text(1, max_bytes, kPath);
}

Result<std::filesystem::path> resolve_path(const std::string& written, const std::filesystem::path& base) {
  if (names_home(written)) {
    const auto home = home_directory();
    if (!home)
      return fail(ErrorCode::config_invalid,
                  written +
                      " needs a home directory: HOME is not set, and the password database has none for "
                      "the user with id " +
                      std::to_string(::geteuid()) + "; write the whole path");
    const std::size_t rest = written.find_first_not_of('/', 1);
    return rest == std::string::npos ? *home : *home / written.substr(rest);
  }
  const std::filesystem::path path = written;
  return path.is_relative() ? base / path : path;
}

}  // namespace flyball::config
