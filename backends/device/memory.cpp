#include "backends/device/memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "backends/device/cgroup.hpp"
#include "config/units.hpp"

namespace flyball::device {
namespace {

constexpr std::uint64_t kHugePage = 2ULL << 20;

// Bytes. 0: the system does not say. key: with its colon.
std::uint64_t meminfo(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::uint64_t kib = 0;
    if (word == key) return file >> kib ? kib * 1024 : 0;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::uint64_t total_memory() {
  return std::min(meminfo("MemTotal:"), cgroup_limits().memory);
}

std::uint64_t available_memory() {
  const std::uint64_t bytes = meminfo("MemAvailable:");
  // At least one: a full cgroup is not a system that does not say.
  return bytes == 0 ? 0 : std::max<std::uint64_t>(1, std::min(bytes, cgroup_limits().memory_left));
}

Result<Pages> Pages::allocate(std::uint64_t bytes, std::string_view what) {
  Pages pages;
  if (bytes == 0) return pages;
  const std::uint64_t free = available_memory();
  const auto refuse = [&] {
    const auto sizes = config::sizes_to_compare({bytes, free});
    return fail(ErrorCode::insufficient_memory, "Not enough memory for " + std::string(what) + ": " +
                                                    sizes[0] + " are needed, " + sizes[1] + " are free.");
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

void commit_pages(std::span<std::byte> pages) noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  volatile std::byte* const at = pages.data();
  for (std::size_t i = 0; i < pages.size(); i += page) at[i] = at[i];
  if (!pages.empty()) at[pages.size() - 1] = at[pages.size() - 1];  // begun in the midst of a page
}

Pages::~Pages() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<void> lock_pages(std::span<const std::span<const std::byte>> ranges) {
  std::size_t locked = 0;
  while (locked < ranges.size() && mlock(ranges[locked].data(), ranges[locked].size()) == 0) ++locked;
  if (locked == ranges.size()) return {};
  const int why = errno;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    bytes += ranges[i].size();
    if (i < locked) munlock(ranges[i].data(), ranges[i].size());
  }
  const std::string wanted = config::size_text(bytes) + " are to be locked";
  rlimit limit{};
  const bool limited = (why == ENOMEM || why == EPERM || why == EAGAIN) &&
                       getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < bytes;
  if (!limited) return fail(ErrorCode::io_error, wanted + ": " + std::strerror(why));
  return fail(ErrorCode::insufficient_memory,
              wanted + ", the limit of locked memory (RLIMIT_MEMLOCK) is " +
                  config::size_text(limit.rlim_cur) +
                  ": raise LimitMEMLOCK= of the service's unit, or `ulimit -l` where it was started");
}

void release_file_pages(std::span<const std::byte> mapping) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(mapping.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(mapping.data() + mapping.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace flyball::device
