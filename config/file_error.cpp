#include "config/file_error.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <system_error>

namespace flyball::config {
namespace {

// The name of a user, or "with id 1000" if the system knows none.
std::string user_text(uid_t id) {
  char buffer[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(id, &entry, buffer, sizeof buffer, &found) == 0 && found) return found->pw_name;
  return "with id " + std::to_string(id);
}

std::string denied(const std::filesystem::path& path, const std::string& act) {
  struct stat info {};
  std::string text = "user " + user_text(::geteuid()) + " may not " + act;
  if (::stat(path.c_str(), &info) != 0)
    return text + ": give that user the right to, or run the command as root";
  if (info.st_uid == ::geteuid()) return text + " although it is that user's own: chmod u+rX " + path.string();
  const std::string owner = user_text(info.st_uid);
  return text + ", which belongs to user " + owner + ": run the command as user " + owner +
         ", or give the other user the right to";
}

}  // namespace

std::string unreadable(const std::filesystem::path& path, int error) {
  const std::string begin = "cannot be read: ";
  if (error == EISDIR) return begin + "it is a directory: name a file in it";
  if (error != EACCES) return begin + std::generic_category().message(error);
  std::error_code failed;
  std::filesystem::path folder;
  for (const auto& part : std::filesystem::absolute(path, failed).parent_path()) {
    folder /= part;
    if (::faccessat(AT_FDCWD, folder.c_str(), X_OK, AT_EACCESS) != 0 && errno == EACCES)
      return begin + denied(folder, "enter the directory " + folder.string());
  }
  return begin + denied(path, "read it");
}

}  // namespace flyball::config
