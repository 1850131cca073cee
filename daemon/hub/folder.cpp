#include "daemon/hub/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "config/descriptor.hpp"
#include "config/write_all.hpp"
#include "config/yaml.hpp"

namespace flyball::hub {

Error system_error(const std::filesystem::path& path, const std::string& act, int error) {
  return Error{
      ErrorCode::io_error, path.string() + " cannot be " + act + ": " + std::strerror(error), {}, {}};
}

namespace {

Error folder_error(const std::filesystem::path& folder, int error) {
  Error out = system_error(folder, "made", error);
  if (error == EACCES || error == EROFS || error == EPERM)
    out.message +=
        ": make it for this user (docs/models.md), or name another folder with models_dir in config.yaml";
  return out;
}

}  // namespace

Result<void> make_folders(const std::filesystem::path& folder) {
  std::filesystem::path made;
  for (const auto& part : folder) {
    made /= part;
    if (::mkdir(made.c_str(), 0755) == 0)
      ::chmod(made.c_str(), 0755);
    else if (std::error_code failed; errno != EEXIST && !std::filesystem::is_directory(made, failed))
      return std::unexpected(folder_error(made, errno));
  }
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    return fail(ErrorCode::io_error, folder.string() + " is no folder, so that no model can lie in it");
  return {};
}

std::filesystem::path unfinished(const std::filesystem::path& file) {
  return file.string() + ".new";
}

Result<void> write_whole(const std::filesystem::path& file, std::string_view text) {
  const std::filesystem::path fresh = unfinished(file);
  const Descriptor out(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  const bool written = out && ::fchmod(out.get(), 0644) == 0 && write_all(out.get(), text);
  if (written && ::fsync(out.get()) == 0 && ::rename(fresh.c_str(), file.c_str()) == 0) return {};
  const int error = errno;
  if (out) ::unlink(fresh.c_str());
  return std::unexpected(system_error(file, "written", error));
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: the file system keeps folders without being asked.
  if (opened && (::fsync(opened.get()) == 0 || errno == EINVAL)) return {};
  return std::unexpected(system_error(folder, "synced", errno));
}

Result<std::uint64_t> free_bytes(std::filesystem::path path) {
  struct statvfs info {};
  while (::statvfs(path.c_str(), &info) != 0) {
    if (errno != ENOENT || path == path.parent_path())
      return std::unexpected(system_error(path, "asked for its free space", errno));
    path = path.parent_path();
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed))
    out.push_back(at->path());
  std::ranges::sort(out);
  return out;
}

std::filesystem::path digest_file(const std::filesystem::path& file) {
  return file.string() + ".sha256";
}

Result<void> write_digest(const std::filesystem::path& file, const std::string& sha256) {
  return write_whole(digest_file(file), sha256 + "  " + file.filename().string() + "\n");
}

std::string written_digest(const std::filesystem::path& file) {
  constexpr std::size_t kDigits = 64, kMaxBytes = 4096;
  const auto text = config::read_text_file(digest_file(file), kMaxBytes);
  if (!text || text->size() < kDigits + 2) return {};
  const std::string digest = text->substr(0, kDigits);
  const bool hex = std::ranges::all_of(digest, [](unsigned char c) { return std::isxdigit(c) != 0; });
  const std::size_t end = std::min(text->find('\n'), text->size());
  return hex && text->substr(kDigits + 2, end - kDigits - 2) == file.filename().string() ? digest
                                                                                         : std::string();
}

}  // namespace flyball::hub
