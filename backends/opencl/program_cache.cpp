// A cached binary: magic, the digest of what follows, the driver's bytes.
#include "backends/opencl/program_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

namespace flyball::opencl {
namespace {

constexpr std::string_view kMagic = "flyball opencl program 1\n";
constexpr std::size_t kDigest = 64;               // hexadecimal digits
constexpr std::uint64_t kMaxBinary = 64ULL << 20;  // a program's; larger ones are not ours
constexpr std::uint64_t kMaxCache = 512ULL << 20;  // all together; the oldest go first

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool ours_alone(const struct stat& s) {
  return s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string file_of(const std::string& key) {
  return key + ".clbin";
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool read_all(int fd, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t n = ::read(fd, to.data(), to.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

std::string digest_of(std::span<const std::string_view> parts) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  for (const std::string_view part : parts) {
    const std::uint64_t length = part.size();  // so that no two lists read the same
    EVP_DigestUpdate(digest.get(), &length, sizeof length);
    EVP_DigestUpdate(digest.get(), part.data(), part.size());
  }
  EVP_DigestFinal_ex(digest.get(), hash.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += "0123456789abcdef"[hash[i] >> 4];
    text += "0123456789abcdef"[hash[i] & 15];
  }
  return text;
}

ProgramCache::ProgramCache(const std::filesystem::path& directory) {
  if (directory.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(directory.parent_path(), ignored);
  mkdir(directory.c_str(), S_IRWXU);  // what is there already is judged below
  // Judged by the descriptor that all files are reached through: nobody can put another folder in its place.
  Descriptor opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat s {};
  if (opened.get() < 0 || fstat(opened.get(), &s) != 0 || !ours_alone(s)) return;
  directory_ = opened.release();
}

ProgramCache::~ProgramCache() {
  if (usable()) close(directory_);
}

std::vector<std::byte> ProgramCache::read(const std::string& key) const {
  if (!usable()) return {};
  // O_NONBLOCK: a pipe by that name would hold us here.
  const Descriptor file(
      openat(directory_, file_of(key).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat s {};
  if (file.get() < 0 || fstat(file.get(), &s) != 0 || !S_ISREG(s.st_mode) || !ours_alone(s)) return {};
  const auto size = static_cast<std::uint64_t>(s.st_size);
  const std::size_t head = kMagic.size() + kDigest;
  if (size <= head || size > kMaxBinary) return {};
  std::string text(size, '\0');
  if (!read_all(file.get(), text)) return {};
  const std::string_view all = text;
  const std::string_view parts[] = {all.substr(head)};
  if (!all.starts_with(kMagic) || all.substr(kMagic.size(), kDigest) != digest_of(parts)) return {};
  const auto* bytes = reinterpret_cast<const std::byte*>(parts[0].data());
  return {bytes, bytes + parts[0].size()};
}

void ProgramCache::write(const std::string& key, std::span<const std::byte> binary) {
  if (!usable() || binary.empty() || binary.size() > kMaxBinary - kMagic.size() - kDigest) return;
  const std::string part = key + "." + std::to_string(getpid()) + ".part";
  unlinkat(directory_, part.c_str(), 0);  // a process of our number that died
  const Descriptor file(openat(directory_, part.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return;
  const std::string_view parts[] = {as_text(binary)};
  if (!write_all(file.get(), kMagic) || !write_all(file.get(), digest_of(parts)) ||
      !write_all(file.get(), parts[0]) ||
      renameat(directory_, part.c_str(), directory_, file_of(key).c_str()) != 0)
    unlinkat(directory_, part.c_str(), 0);
  bound();
}

// Keeps the cache within its bound. What another process removes meanwhile is gone, and that is fine.
void ProgramCache::bound() {
  struct File {
    timespec time;
    std::uint64_t size;
    std::string name;
  };
  const int again = openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // closedir's to close
  if (again < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(again), &closedir);
  if (!listing) {
    close(again);
    return;
  }
  std::vector<File> files;
  std::uint64_t total = 0;
  while (const dirent* entry = readdir(listing.get())) {
    struct stat s {};
    if (fstatat(directory_, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
    files.push_back({s.st_mtim, static_cast<std::uint64_t>(s.st_size), entry->d_name});
    total += files.back().size;
  }
  std::ranges::sort(files, {}, [](const File& f) { return std::pair(f.time.tv_sec, f.time.tv_nsec); });
  for (const File& f : files) {
    if (total <= kMaxCache) return;
    unlinkat(directory_, f.name.c_str(), 0);
    total -= f.size;
  }
}

}  // namespace flyball::opencl
