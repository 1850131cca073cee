#include "backends/cpu/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace flyball::cpu {
namespace {

constexpr std::uint64_t kHugePage = 2ULL << 20;

// The number after `key` in a file of "key value" lines, or the file's only word where key is "".
std::optional<std::uint64_t> read_number(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(" \t", key.size());
    if (at == std::string::npos) return std::nullopt;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
    if (error != std::errc{}) return std::nullopt;  // "max"
    return value;
  }
  return std::nullopt;
}

// cgroup v2: this process's group and each above it may set a limit.
std::uint64_t cgroup_headroom() {
  std::uint64_t headroom = std::numeric_limits<std::uint64_t>::max();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    std::string path = line.substr(3);
    while (true) {
      const std::string dir = "/sys/fs/cgroup" + (path == "/" ? std::string() : path);
      if (const auto max = read_number(dir + "/memory.max", "")) {
        const std::uint64_t current = read_number(dir + "/memory.current", "").value_or(0);
        const std::uint64_t cached = read_number(dir + "/memory.stat", "file ").value_or(0);
        const std::uint64_t held = current > cached ? current - cached : 0;
        headroom = std::min(headroom, *max > held ? *max - held : 0);
      }
      if (path == "/" || path.empty()) break;
      const std::size_t slash = path.rfind('/');
      path = slash == 0 ? "/" : path.substr(0, slash);
    }
  }
  return headroom;
}

}  // namespace

std::uint64_t available_memory() {
  const auto kib = read_number("/proc/meminfo", "MemAvailable:");
  if (!kib) return 0;
  // At least one: a full cgroup is not a system that does not say.
  return std::max<std::uint64_t>(1, std::min(*kib * 1024, cgroup_headroom()));
}

Result<Pages> Pages::allocate(std::uint64_t bytes, std::string_view what) {
  Pages pages;
  if (bytes == 0) return pages;
  const std::uint64_t free = available_memory();
  const auto refuse = [&] {
    return fail(ErrorCode::insufficient_memory, "Not enough memory for " + std::string(what) + ": " +
                                                    std::to_string(bytes) + " bytes are needed, " +
                                                    std::to_string(free) + " are free.");
  };
  if (bytes > std::numeric_limits<std::size_t>::max() - kHugePage || (free != 0 && bytes > free))
    return refuse();
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return refuse();
  if (bytes >= kHugePage) madvise(at, bytes, MADV_HUGEPAGE);  // fewer TLB misses while weights stream by
  pages.bytes_ = {static_cast<std::byte*>(at), bytes};
  return pages;
}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Pages::~Pages() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void release_file_pages(std::span<const std::byte> mapping) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(mapping.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(mapping.data() + mapping.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace flyball::cpu
