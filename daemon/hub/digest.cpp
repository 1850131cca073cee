#include "daemon/hub/digest.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "config/descriptor.hpp"
#include "config/file_error.hpp"

namespace flyball::hub {
namespace {

constexpr std::size_t kReadBytes = 1U << 20;

void require(int ok) {
  if (ok != 1) std::abort();  // OpenSSL without SHA, or no memory for a context
}

}  // namespace

void Hasher::Free::operator()(evp_md_ctx_st* context) const noexcept {
  EVP_MD_CTX_free(context);
}

Hasher::Hasher(Kind kind) : context_(EVP_MD_CTX_new()) {
  require(context_ ? 1 : 0);
  require(EVP_DigestInit_ex(context_.get(), kind == Kind::sha256 ? EVP_sha256() : EVP_sha1(), nullptr));
}

void Hasher::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Hasher::hex() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  require(copy ? EVP_MD_CTX_copy_ex(copy.get(), context_.get()) : 0);
  require(EVP_DigestFinal_ex(copy.get(), digest, &size));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  return out;
}

Result<void> read_pieces(int file, std::uint64_t size, const std::filesystem::path& name,
                         const std::function<void(std::span<const std::byte>)>& take) {
  std::vector<std::byte> buffer(kReadBytes);
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - at));
    const ssize_t n = ::pread(file, buffer.data(), most, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::io_error, name.string() + " " + config::unreadable(name, errno));
    if (n == 0)
      return fail(ErrorCode::io_error, name.string() + " became shorter while it was read: it had " +
                                           std::to_string(size) + " bytes and has " + std::to_string(at));
    take(std::span(buffer).first(static_cast<std::size_t>(n)));
    at += static_cast<std::uint64_t>(n);
  }
  return {};
}

Hasher git_blob_hasher(std::uint64_t size) {
  // Git's name of a file is the SHA-1 of this header, with the zero behind it, and its bytes.
  const std::string header = "blob " + std::to_string(size);
  Hasher out(Hasher::Kind::sha1);
  out.add(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
  return out;
}

Result<Digests> digests_of(const std::filesystem::path& file, std::uint64_t size, bool of_git,
                           const std::function<void(std::uint64_t)>& at) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!opened || ::fstat(opened.get(), &info) != 0)
    return fail(ErrorCode::io_error, file.string() + " " + config::unreadable(file, errno));
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::io_error, file.string() + " is no regular file");
  Hasher sha256, blob = git_blob_hasher(size);
  std::uint64_t done = 0;
  auto read = read_pieces(opened.get(), size, file, [&](std::span<const std::byte> bytes) {
    sha256.add(bytes);
    if (of_git) blob.add(bytes);
    done += bytes.size();
    if (at) at(done);
  });
  if (!read) return pass(read);
  return Digests{sha256.hex(), of_git ? blob.hex() : std::string()};
}

}  // namespace flyball::hub
