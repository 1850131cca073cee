// Files are read here, not mapped or parsed: one that shrinks meanwhile, or was made to hurt, costs nothing.
#include "daemon/measure/subject.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <system_error>

#include "backends/model/split_name.hpp"
#include "daemon/fleet/file_stamp.hpp"

namespace flyball::measure {
namespace {

constexpr std::size_t kHeadBytes = 1U << 20;  // metadata: shape, types, the beginning of a vocabulary
constexpr std::size_t kSamples = 32, kSampleBytes = 4096;

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void bytes(const void* data, std::size_t n) { EVP_DigestUpdate(context_.get(), data, n); }
  void number(std::int64_t value) { bytes(&value, sizeof value); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), hash.data(), &size);
    std::string out;
    for (unsigned i = 0; i < size; ++i) {
      out += "0123456789abcdef"[hash[i] >> 4U];
      out += "0123456789abcdef"[hash[i] & 15U];
    }
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void read_part(Digest& digest, int fd, std::uint64_t at, std::size_t bytes) {
  std::vector<char> part(bytes);
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(fd, part.data() + got, bytes - got, static_cast<off_t>(at + got));
    if (n <= 0) break;  // what is not there says nothing
    got += static_cast<std::size_t>(n);
  }
  digest.bytes(part.data(), got);
}

bool add_file(Digest& digest, const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat s {};
  const bool regular = fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
  if (regular) {
    const auto size = static_cast<std::uint64_t>(s.st_size);
    digest.number(s.st_size);
    digest.number(s.st_mtim.tv_sec);
    digest.number(s.st_mtim.tv_nsec);
    read_part(digest, fd, 0, static_cast<std::size_t>(std::min<std::uint64_t>(size, kHeadBytes)));
    if (size > kHeadBytes)
      for (std::size_t i = 1; i <= kSamples; ++i)
        read_part(digest, fd, kHeadBytes + (size - kHeadBytes) / kSamples * i - kSampleBytes / 2,
                  kSampleBytes);
  }
  close(fd);
  return regular;
}

}  // namespace

Engine processor(const cpu::CpuReport& cpu, std::int64_t now) {
  return {std::string(config::kCpu.id),
          cpu.model + ", " + cpu.isa + ", " + std::to_string(cpu.threads) + " threads",
          "flyball " FLYBALL_VERSION,
          {.read_gbps = cpu.bandwidth,
           .float_gops = cpu.float_gops,
           .int8_gops = cpu.int8_gops,
           .measured_at = now,
           .page_gbps = cpu.page_rate},
          {},
          {}};
}

std::optional<Engine> gpu_engine(const std::string& backend, const DeviceProbe& probe,
                                 std::span<const std::string> ids) {
  Engine engine{backend, "", "", {}, {ids.begin(), ids.end()}, {}};
  for (const std::string& id : ids) {
    const auto device = std::ranges::find(probe.devices, id, &DeviceReport::id);
    if (device == probe.devices.end()) return std::nullopt;
    const std::string before = engine.device.empty() ? "" : " + ";
    engine.device += before + device->id;
    engine.driver += before + device->driver;
    engine.device_kinds.push_back(device->kind);
  }
  if (engine.device.empty()) return std::nullopt;
  engine.driver += ", flyball " FLYBALL_VERSION;
  return engine;
}

std::string model_digest(const std::filesystem::path& path) {
  Digest digest;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    for (const std::filesystem::path& shard : model::shard_files(path))
      if (!add_file(digest, shard)) return "";
    return digest.hex();
  }
  std::set<std::filesystem::path> files;  // in order of name
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file(error)) files.insert(at->path());
  for (const std::filesystem::path& file : files) {
    const std::string name = file.filename().string();
    digest.bytes(name.c_str(), name.size() + 1);
    if (!add_file(digest, file)) return "";
  }
  return files.empty() ? "" : digest.hex();
}

std::string model_digest(const config::ModelEntry& model) {
  return model.embedded ? "embedded in flyball " FLYBALL_VERSION : model_digest(model.path);
}

std::string Digests::of(const config::ModelEntry& model) {
  if (model.embedded) return model_digest(model);
  const std::uint64_t stamp = fleet::file_stamp(model.path);
  Kept& kept = kept_[model.path];
  if (stamp == 0 || kept.stamp != stamp || kept.digest.empty()) {
    kept = {stamp, model_digest(model.path)};
    ++files_read_;
  }
  return kept.digest;
}

Subject subject_of(const Engine& engine) {
  return {"", engine.backend, engine.device, engine.driver, ""};
}

Subject subject_of(const Engine& engine, const std::string& digest, const config::ModelEntry& model) {
  std::string setup = "kv " + model.kv_type;
  const bool on_processor = engine.backend == config::kCpu.id;
  if (on_processor && model.threads != 0) setup += ", " + std::to_string(model.threads) + " threads";
  if (on_processor && model.expert_bytes != 0)
    setup += ", " + std::to_string(model.expert_bytes) + " bytes of experts";
  return {digest, engine.backend, engine.device, engine.driver, setup};
}

}  // namespace flyball::measure
