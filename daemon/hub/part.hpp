// A file on its way: FILE.part beside its final name, and FILE.part.json, which says what it is a part of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/descriptor.hpp"
#include "config/error.hpp"
#include "daemon/hub/digest.hpp"

namespace flyball::hub {

// The file that is wanted, as far as it is known before the first byte.
struct Expected {
  std::optional<std::uint64_t> size = std::nullopt;
  std::string sha256 = {};   // "" or 64 lower-case hex digits
  std::string git_oid = {};  // "" or 40 hex digits of the git blob; needs the size
  bool has_digest() const { return !sha256.empty() || !git_oid.empty(); }
};

// The file that the bytes of a part belong to.
struct PartOrigin {
  std::string url, etag;  // the address without its query, which may be a secret
  Expected expected;
  std::string query = {};  // its digest; "" without a query
};

std::filesystem::path part_file(const std::filesystem::path& file);
std::filesystem::path origin_file(const std::filesystem::path& file);
// FILE.source.json, the origin of a whole file that came without a digest to compare with.
std::filesystem::path source_file(const std::filesystem::path& file);
// nullopt: there is none, or it cannot be read.
std::optional<PartOrigin> read_origin(const std::filesystem::path& file);
std::optional<PartOrigin> read_source(const std::filesystem::path& file);
Result<void> write_origin(const std::filesystem::path& file, const PartOrigin& origin);
// The folder of links by which a file without a name is looked at. A killed process leaves it.
std::filesystem::path check_folder(const std::filesystem::path& file);
// All files that a pull makes beside `file`, apart from its part.
std::vector<std::filesystem::path> companions_of(const std::filesystem::path& file);

// The part of one file, locked: no other process writes it. It stays on the disk, to be gone on with, until
// it is published or removed.
class Part {
 public:
  // Opens or makes the part of `file`. io_error: another process has it, or the system's reason.
  static Result<Part> open(const std::filesystem::path& file);

  const std::filesystem::path& file() const noexcept { return file_; }
  std::uint64_t size() const noexcept { return size_; }

  // Hashes the bytes that are there, and tells `at` how many are done. The digests are of `expected`'s kinds
  // from here on.
  Result<void> begin(const Expected& expected, const std::function<void(std::uint64_t)>& at = {});
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> start_anew();  // without a byte
  std::string sha256() const { return sha256_.hex(); }
  // Compares the bytes with the expected digests. upstream_invalid: they differ, with both; the part is
  // removed.
  Result<void> check(const std::string& whence);
  // Gives the file its name, with its digest beside it; both are on the disk then. Precondition: check().
  Result<void> publish();
  void remove() noexcept;
  // Removes what a killed process has left beside the file.
  void remove_leftovers() const noexcept;

 private:
  Part(std::filesystem::path file, Descriptor opened, std::uint64_t size)
      : file_(std::move(file)), opened_(std::move(opened)), size_(size) {}
  void reset_digests();
  void hash(std::span<const std::byte> bytes);

  std::filesystem::path file_;
  Descriptor opened_;
  std::uint64_t size_ = 0;
  Expected expected_;
  Hasher sha256_;
  std::optional<Hasher> blob_;
};

}  // namespace flyball::hub
