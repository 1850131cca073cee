// Digests of bytes that arrive in pieces, and of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "config/error.hpp"

struct evp_md_ctx_st;

namespace flyball::hub {

class Hasher {
 public:
  enum class Kind : std::uint8_t { sha256, sha1 };
  explicit Hasher(Kind kind = Kind::sha256);
  void add(std::span<const std::byte> bytes);
  std::string hex() const;  // of the bytes so far, in lower case

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Hands the first `size` bytes of an open file to `take`, in pieces. io_error: it is shorter, or unreadable.
Result<void> read_pieces(int file, std::uint64_t size, const std::filesystem::path& name,
                         const std::function<void(std::span<const std::byte>)>& take);
struct Digests {
  std::string sha256;
  std::string git_oid;  // of the file as a git blob; "" where that was not asked for
};
// The hasher of a git blob of so many bytes, which are to be added.
Hasher git_blob_hasher(std::uint64_t size);
// Both of the first `size` bytes; `at` gets the number of those hashed so far.
Result<Digests> digests_of(const std::filesystem::path& file, std::uint64_t size, bool of_git,
                           const std::function<void(std::uint64_t)>& at = {});

}  // namespace flyball::hub
