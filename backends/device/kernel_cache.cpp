// A cached file: its kind's first line, the digest of what follows, the driver's bytes.
#include "backends/device/kernel_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace flyball::device {
namespace {

constexpr std::size_t kDigest = 64;                // hexadecimal digits
constexpr std::uint64_t kMaxBinary = 64ULL << 20;  // a file's; larger ones are not ours

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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

KernelCache::KernelCache(const std::filesystem::path& directory, Kind kind, std::uint64_t max_bytes)
    : kind_(kind), max_bytes_(max_bytes) {
  if (directory.empty()) return;
  auto made = CacheDirectory::make(directory, CacheDirectory::Trust::owner);
  if (made)
    directory_ = std::move(*made);
  else
    stop(made.error());
}

void KernelCache::stop(const Error& why) {
  trouble_ = "Compiled kernels are not kept. " + why.message + " (" + why.where + ")";
}

std::vector<std::byte> KernelCache::read(const std::string& key) const {
  if (!directory_) return {};
  const auto text = directory_->read(file_of(key), kMaxBinary);
  const std::size_t head = kind_.magic.size() + kDigest;
  if (!text || text->size() <= head) return {};
  const std::string_view all = *text;
  const std::string_view parts[] = {all.substr(head)};
  if (!all.starts_with(kind_.magic) || all.substr(kind_.magic.size(), kDigest) != digest_of(parts)) return {};
  utimensat(directory_->fd(), file_of(key).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // used now, for bound()
  const auto* bytes = reinterpret_cast<const std::byte*>(parts[0].data());
  return {bytes, bytes + parts[0].size()};
}

void KernelCache::write(const std::string& key, std::span<const std::byte> binary) {
  if (!keeps() || binary.empty() || binary.size() > kMaxBinary - kind_.magic.size() - kDigest) return;
  const std::string_view content[] = {as_text(binary)};
  const std::string digest = digest_of(content);
  const std::string_view parts[] = {kind_.magic, digest, content[0]};
  if (const auto written = directory_->write(file_of(key), parts); !written) return stop(written.error());
  bound();
}

// Keeps the cache within its bound. What another process removes meanwhile is gone, and that is fine.
void KernelCache::bound() {
  struct File {
    timespec time;
    std::uint64_t size;
    std::string name;
  };
  Descriptor again(openat(directory_->fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(again.get()), &closedir);
  if (!listing) return;
  std::ignore = again.release();  // closedir's
  std::vector<File> files;
  std::uint64_t total = 0;
  while (const dirent* entry = readdir(listing.get())) {
    struct stat s {};
    if (fstatat(directory_->fd(), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
      continue;
    files.push_back({s.st_mtim, static_cast<std::uint64_t>(s.st_size), entry->d_name});
    total += files.back().size;
  }
  std::ranges::sort(files, {}, [](const File& f) { return std::pair(f.time.tv_sec, f.time.tv_nsec); });
  for (const File& f : files) {
    if (total <= max_bytes_) return;
    unlinkat(directory_->fd(), f.name.c_str(), 0);
    total -= f.size;
  }
}

}  // namespace flyball::device
