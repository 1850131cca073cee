#include "daemon/discover/users.hpp"

#include <pwd.h>

#include <array>

namespace flyball::discover {

std::optional<User> user_named(const std::string& name) {
  std::array<char, 16 * 1024> buffer{};
  passwd entry{}, *found = nullptr;
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return User{found->pw_uid, found->pw_gid, found->pw_dir};
}

}  // namespace flyball::discover
