// Large allocations of the CPU engine: zeroed pages, huge where the system gives them, refused before they
// hurt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "config/error.hpp"

namespace flyball::device {

// Bytes of this machine, or fewer where a cgroup limits this process; and those it may still take (page cache
// counts as available: the kernel takes it back). 0 when the system does not say.
std::uint64_t total_memory();
std::uint64_t available_memory();

inline constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector
constexpr std::size_t align_up(std::size_t bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Takes memory that was only promised: until a page is written, the system counts it as free, and what is
// allocated next would be promised it again.
void commit_pages(std::span<std::byte> pages) noexcept;

// Zeroed private pages. Move-only.
class Pages {
 public:
  // insufficient_memory, with what for, the bytes needed and the bytes free.
  static Result<Pages> allocate(std::uint64_t bytes, std::string_view what);
  Pages() = default;
  Pages(Pages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  void commit() noexcept { commit_pages(bytes_); }
  void commit(std::size_t begin, std::size_t end) noexcept {  // bytes; what lies in a page of them, too
    commit_pages(bytes_.subspan(begin, end - begin));
  }

  std::byte* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }
  template <class T>
  T* as(std::size_t byte_offset = 0) const noexcept {
    return reinterpret_cast<T*>(bytes_.data() + byte_offset);
  }

 private:
  std::span<std::byte> bytes_;
};

// Keeps the pages in memory while they are mapped (mlock): all of them or none. insufficient_memory, with the
// bytes, the limit and the remedy: the process may not lock so many; io_error: a file could not be read.
Result<void> lock_pages(std::span<const std::span<const std::byte>> ranges);

// Tells the kernel that these pages of a file mapping are not needed soon. They are read again when touched.
// Precondition: a mapping of a file, not of memory whose only copy this is.
void release_file_pages(std::span<const std::byte> mapping) noexcept;

}  // namespace flyball::device
