// A cached binary: magic, the digest of what follows, the driver's bytes. Written beside and renamed, so that
// no half of one is ever read.
#include "backends/opencl/programs.hpp"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "embedded/opencl_kernels.hpp"

namespace flyball::opencl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "flyball opencl program 1\n";
constexpr std::uint64_t kMaxBinary = 64ULL << 20;  // a program's; larger ones are not ours
constexpr std::uint64_t kMaxCache = 512ULL << 20;  // all together; the oldest go first

std::string hex_digest(std::span<const std::string_view> parts) {
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

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Ours alone to write.
bool usable(const fs::path& directory) {
  struct stat s {};
  return stat(directory.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
         (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::vector<std::byte> read_binary(const fs::path& path) {
  std::error_code ec;
  const auto size = fs::file_size(path, ec);
  const std::size_t head = kMagic.size() + 64;
  if (ec || size <= head || size > kMaxBinary) return {};
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) return {};
  const std::string_view all = text;
  const std::string_view body = all.substr(head);
  const std::string_view parts[] = {body};
  if (!all.starts_with(kMagic) || all.substr(kMagic.size(), 64) != hex_digest(parts)) return {};
  const auto* bytes = reinterpret_cast<const std::byte*>(body.data());
  return {bytes, bytes + body.size()};
}

void write_binary(const fs::path& path, std::span<const std::byte> binary) {
  const fs::path part = path.string() + "." + std::to_string(getpid()) + ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    const std::string_view parts[] = {as_text(binary)};
    out << kMagic << hex_digest(parts) << as_text(binary);
    if (!out.flush()) {
      std::error_code ignored;
      fs::remove(part, ignored);
      return;
    }
  }
  std::error_code ec;
  fs::rename(part, path, ec);
  if (ec) fs::remove(part, ec);
}

// Keeps the cache within its bound. What another process removes meanwhile is gone, and that is fine.
void bound(const fs::path& directory) {
  struct File {
    fs::file_time_type time;
    std::uint64_t size;
    fs::path path;
  };
  std::vector<File> files;
  std::uint64_t total = 0;
  std::error_code ec;
  for (fs::directory_iterator it(directory, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code gone;
    File f{it->last_write_time(gone), it->file_size(gone), it->path()};
    if (gone) continue;
    total += f.size;
    files.push_back(std::move(f));
  }
  std::ranges::sort(files, {}, &File::time);
  for (const File& f : files) {
    if (total <= kMaxCache) return;
    fs::remove(f.path, ec);
    total -= f.size;
  }
}

}  // namespace

std::string_view kernel_source(std::string_view name) {
  for (const auto& [known, text] : kKernelSources)
    if (known == name) return as_text(text());
  std::abort();
}

Programs::Programs(std::shared_ptr<Device> device, fs::path directory)
    : device_(std::move(device)), directory_(std::move(directory)) {
  if (directory_.empty()) return;
  std::error_code ec;
  if (fs::create_directories(directory_, ec)) fs::permissions(directory_, fs::perms::owner_all, ec);
  if (!usable(directory_)) directory_.clear();
}

Result<Kernel> Programs::kernel(const std::string& name, std::span<const std::string_view> files,
                                const std::string& options) {
  const DeviceFacts& facts = device_->facts();
  std::vector<std::string_view> sources;
  for (const std::string_view file : files) sources.push_back(kernel_source(file));
  std::vector<std::string_view> identity{facts.platform, facts.name, facts.driver, options};
  identity.insert(identity.end(), sources.begin(), sources.end());
  const std::string key = hex_digest(identity);

  auto it = programs_.find(key);
  if (it == programs_.end()) {
    Program made;
    if (!directory_.empty())
      if (const auto binary = read_binary(file_of(key)); !binary.empty())
        made.program = device_->from_binary(binary, options);
    if (made.program) {
      made.stored = true;
      ++from_cache_;
    } else {
      auto compiled = device_->compile(files.back(), sources, options);
      if (!compiled) return std::unexpected(std::move(compiled.error()));
      made.program = std::move(*compiled);
      ++compiled_;
    }
    it = programs_.emplace(key, std::move(made)).first;
  }
  return device_->kernel(it->second.program, name);
}

void Programs::store() {
  if (directory_.empty()) return;
  bool any = false;
  for (auto& [key, program] : programs_) {
    if (program.stored) continue;
    program.stored = true;
    const auto binary = device_->binary_of(program.program);
    if (binary.empty() || binary.size() > kMaxBinary) continue;
    write_binary(file_of(key), binary);
    any = true;
  }
  if (any) bound(directory_);
}

}  // namespace flyball::opencl
