// The password database.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace flyball::discover {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::filesystem::path home;
};
std::optional<User> user_named(const std::string& name);  // nullopt: there is none

}  // namespace flyball::discover
