#include "backends/model/pin.hpp"

#include <array>
#include <memory>
#include <new>
#include <string>

#include <openssl/evp.h>

#include "config/ascii_lower.hpp"

namespace flyball::model {

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string out;
  for (const unsigned char byte : bytes) {
    out += "0123456789abcdef"[byte >> 4U];
    out += "0123456789abcdef"[byte & 15U];
  }
  return out;
}

Result<void> check_sha256(std::span<const MappedFile> files, std::string_view expected,
                          const std::filesystem::path& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (!digest || EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  for (const MappedFile& file : files)
    EVP_DigestUpdate(digest.get(), file.bytes().data(), file.bytes().size());
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  EVP_DigestFinal_ex(digest.get(), hash.data(), &size);
  const std::string found = to_hex(std::span(hash).first(size));
  const std::string wanted = ascii_lower(expected);
  if (found == wanted) return {};
  return fail(ErrorCode::model_invalid,
              "The model file's SHA-256 is " + found + ", config.yaml says " + wanted + ".", "sha256",
              path.string());
}

}  // namespace flyball::model
