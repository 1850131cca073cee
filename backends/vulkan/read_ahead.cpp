#include "backends/vulkan/read_ahead.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

namespace flyball::vulkan {
namespace {

constexpr std::size_t kChunk = 16U << 20;  // bytes that an end waits for, at most

void read(const std::stop_token& stop, std::span<const std::byte> bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) + page - 1) / page * page;
  for (std::uintptr_t at = begin; at < end && !stop.stop_requested(); at += kChunk)
    // Failures show where the pages are needed.
    (void)madvise(reinterpret_cast<void*>(at), std::min<std::size_t>(kChunk, end - at), MADV_POPULATE_READ);
}

}  // namespace

ReadAhead::ReadAhead(std::vector<std::span<const std::byte>> bytes) {
  try {
    thread_ = std::jthread([bytes = std::move(bytes)](const std::stop_token& stop) {
      for (const auto& one : bytes) read(stop, one);
    });
  } catch (const std::system_error&) {
  }
}

void ReadAhead::finish() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace flyball::vulkan
