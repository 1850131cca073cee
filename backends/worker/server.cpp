#include "backends/worker/server.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include <openssl/evp.h>

#include "backends/model/split_name.hpp"

namespace flyball::worker {
namespace {

// A split model's digest is that of its shards one after the other.
Result<void> check_sha256(const std::filesystem::path& path, const std::string& expected) {
  std::error_code ignored;  // what is no directory is read
  if (std::filesystem::is_directory(path, ignored))
    return fail(ErrorCode::invalid_value, path.string() + " is a directory, which has no SHA-256 of its own.",
                "sha256", path.string());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  std::vector<char> chunk(1U << 20);
  for (const std::filesystem::path& file : model::shard_files(path)) {
    std::ifstream in(file, std::ios::binary);
    if (!in)
      return fail(ErrorCode::io_error, "cannot open " + file.string() + " to check its SHA-256", "",
                  file.string());
    while (in) {
      in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      EVP_DigestUpdate(digest.get(), chunk.data(), static_cast<std::size_t>(in.gcount()));
    }
    if (in.bad()) return fail(ErrorCode::io_error, "cannot read " + file.string(), "", file.string());
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  EVP_DigestFinal_ex(digest.get(), hash.data(), &size);
  std::string found;
  for (unsigned i = 0; i < size; ++i) {
    found += "0123456789abcdef"[hash[i] >> 4];
    found += "0123456789abcdef"[hash[i] & 15];
  }
  std::string wanted = expected;
  for (char& c : wanted) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (found == wanted) return {};
  return fail(ErrorCode::model_invalid,
              "The model file's SHA-256 is " + found + ", config.yaml says " + wanted + ".", "sha256",
              path.string());
}

}  // namespace

int serve_worker(int fd, const local::LocalBackendOptions& options, const std::string& sha256) {
  return serve_backend(fd, [options, sha256](const AskMemory& ask) -> Result<std::unique_ptr<Backend>> {
    if (!sha256.empty() && !options.path.empty()) {
      if (auto same = check_sha256(options.path, sha256); !same) return pass(same);
    }
    local::LocalBackendOptions asking = options;
    asking.ask_memory = ask;
    return local::make_local_backend(asking);
  });
}

}  // namespace flyball::worker
