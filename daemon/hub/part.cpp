#include "daemon/hub/part.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "config/yaml.hpp"
#include "daemon/hub/folder.hpp"

namespace flyball::hub {
namespace {

constexpr std::size_t kMaxOriginBytes = 64U << 10;

std::string word(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

std::filesystem::path part_file(const std::filesystem::path& file) {
  return file.string() + ".part";
}
std::filesystem::path origin_file(const std::filesystem::path& file) {
  return file.string() + ".part.json";
}

std::filesystem::path source_file(const std::filesystem::path& file) {
  return file.string() + ".source.json";
}
std::filesystem::path check_folder(const std::filesystem::path& file) {
  return file.string() + ".check.part";
}

std::vector<std::filesystem::path> companions_of(const std::filesystem::path& file) {
  std::vector<std::filesystem::path> out{digest_file(file), source_file(file), origin_file(file)};
  for (std::size_t i = 0; i < 3; ++i) out.push_back(unfinished(out[i]));
  out.push_back(check_folder(file));
  return out;
}

namespace {

std::optional<PartOrigin> origin_in(const std::filesystem::path& json_file) {
  const auto text = config::read_text_file(json_file, kMaxOriginBytes);
  const auto json = text ? read_json(*text) : Result<nlohmann::json>(pass(text));
  if (!json || !json->is_object()) return std::nullopt;
  PartOrigin out{word(*json, "url"), word(*json, "etag"), {}, word(*json, "query")};
  out.expected.sha256 = word(*json, "sha256");
  out.expected.git_oid = word(*json, "git_oid");
  if (const auto size = json->find("size"); size != json->end() && size->is_number_unsigned())
    out.expected.size = size->get<std::uint64_t>();
  return out;
}

}  // namespace

std::optional<PartOrigin> read_origin(const std::filesystem::path& file) {
  return origin_in(origin_file(file));
}
std::optional<PartOrigin> read_source(const std::filesystem::path& file) {
  return origin_in(source_file(file));
}

Result<void> write_origin(const std::filesystem::path& file, const PartOrigin& origin) {
  nlohmann::ordered_json out{{"url", origin.url}, {"etag", origin.etag}};
  if (origin.expected.size) out["size"] = *origin.expected.size;
  if (!origin.expected.sha256.empty()) out["sha256"] = origin.expected.sha256;
  if (!origin.expected.git_oid.empty()) out["git_oid"] = origin.expected.git_oid;
  if (!origin.query.empty()) out["query"] = origin.query;
  return write_whole(origin_file(file),
                     out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<Part> Part::open(const std::filesystem::path& file) {
  const std::filesystem::path path = part_file(file);
  for (;;) {
    Descriptor opened(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    struct stat own {
    }, there{};
    if (!opened || ::fstat(opened.get(), &own) != 0)
      return std::unexpected(system_error(path, "opened", errno));
    if (!S_ISREG(own.st_mode)) return fail(ErrorCode::io_error, path.string() + " is no regular file");
    if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0)
      return fail(ErrorCode::io_error,
                  path.string() + (errno == EWOULDBLOCK ? " is being fetched by another process: wait for it"
                                                        : " cannot be locked"));
    // Another process may have given the file its name since it was opened.
    if (::lstat(path.c_str(), &there) != 0 || there.st_ino != own.st_ino || there.st_dev != own.st_dev)
      continue;
    ::fchmod(opened.get(), 0644);  // the daemon may run as another user
    return Part(file, std::move(opened), static_cast<std::uint64_t>(own.st_size));
  }
}

void Part::hash(std::span<const std::byte> bytes) {
  sha256_.add(bytes);
  if (blob_) blob_->add(bytes);
}

void Part::reset_digests() {
  sha256_ = Hasher();
  blob_.reset();
  if (!expected_.git_oid.empty()) blob_ = git_blob_hasher(expected_.size.value_or(0));
}

Result<void> Part::begin(const Expected& expected, const std::function<void(std::uint64_t)>& at) {
  expected_ = expected;
  reset_digests();
  std::uint64_t done = 0;
  return read_pieces(opened_.get(), size_, part_file(file_), [&](std::span<const std::byte> bytes) {
    hash(bytes);
    done += bytes.size();
    if (at) at(done);
  });
}

Result<void> Part::append(std::span<const std::byte> bytes) {
  for (std::span<const std::byte> left = bytes; !left.empty();) {
    const ssize_t n = ::pwrite(opened_.get(), left.data(), left.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::unexpected(system_error(part_file(file_), "written", n < 0 ? errno : EIO));
    hash(left.first(static_cast<std::size_t>(n)));
    size_ += static_cast<std::uint64_t>(n);
    left = left.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> Part::start_anew() {
  if (::ftruncate(opened_.get(), 0) != 0)
    return std::unexpected(system_error(part_file(file_), "emptied", errno));
  size_ = 0;
  reset_digests();
  return {};
}

Result<void> Part::check(const std::string& whence) {
  const auto refuse = [&](const std::string& kind, const std::string& own, const std::string& wanted) {
    remove();
    return fail(ErrorCode::upstream_invalid, file_.filename().string() + " from " + whence + " has the " +
                                                 kind + " " + own + ", expected " + wanted +
                                                 ": the bytes that came are removed; try again");
  };
  if (const std::string own = sha256(); !expected_.sha256.empty() && own != expected_.sha256)
    return refuse("SHA-256", own, expected_.sha256);
  if (blob_ && blob_->hex() != expected_.git_oid)
    return refuse("git digest", blob_->hex(), expected_.git_oid);
  return {};
}

Result<void> Part::publish() {
  // A digest that stands beside a file is always that file's: the old one goes first, the new one comes last.
  if (::fsync(opened_.get()) != 0) return std::unexpected(system_error(part_file(file_), "synced", errno));
  for (const std::filesystem::path& old : {digest_file(file_), source_file(file_)})
    if (::unlink(old.c_str()) != 0 && errno != ENOENT)
      return std::unexpected(system_error(old, "removed", errno));
  if (::rename(part_file(file_).c_str(), file_.c_str()) != 0)
    return std::unexpected(system_error(file_, "given its name", errno));
  if (auto written = write_digest(file_, sha256()); !written) return written;
  // Without a digest to compare with, the server's ETag tells a later pull whether it has another file.
  if (expected_.has_digest())
    ::unlink(origin_file(file_).c_str());
  else
    ::rename(origin_file(file_).c_str(), source_file(file_).c_str());
  return sync_folder(file_.parent_path());
}

void Part::remove() noexcept {
  ::unlink(part_file(file_).c_str());
  ::unlink(origin_file(file_).c_str());
}

void Part::remove_leftovers() const noexcept {
  for (const std::filesystem::path& file : {digest_file(file_), source_file(file_), origin_file(file_)})
    ::unlink(unfinished(file).c_str());
  std::error_code ignored;
  std::filesystem::remove_all(check_folder(file_), ignored);
}

}  // namespace flyball::hub
