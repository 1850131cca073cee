#include "backends/kv/chain_key.hpp"

#include <cstdlib>
#include <memory>
#include <new>

#include <openssl/evp.h>

namespace flyball::kv {
namespace {

// Length-prefixed parts: where one ends is part of what is hashed.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (!context_) throw std::bad_alloc();
    if (EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) std::abort();
  }
  Hash& add(std::span<const std::byte> part) {
    const std::uint64_t size = part.size();
    update(&size, sizeof size);
    update(part.data(), part.size());
    return *this;
  }
  ChainKey key() {
    ChainKey key;
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(key.bytes.data()), &size) != 1 ||
        size != key.bytes.size())
      std::abort();
    return key;
  }

 private:
  void update(const void* data, std::size_t size) {
    if (EVP_DigestUpdate(context_.get(), data, size) != 1) std::abort();
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

ChainKey space_key(std::string_view description) {
  return Hash().add(bytes_of("flyball kv space")).add(bytes_of(description)).key();
}

ChainKey root_key(const ChainKey& space, std::string_view owner) {
  return Hash().add(bytes_of("flyball kv owner")).add(space.bytes).add(bytes_of(owner)).key();
}

ChainKey next_key(const ChainKey& before, std::span<const Token> tokens) {
  return Hash().add(before.bytes).add(std::as_bytes(tokens)).key();
}

}  // namespace flyball::kv
