// The memory of one body that has been parsed, for the next large body. Memory that malloc takes afresh from
// the system costs the loop more in page faults than the bytes that the loop copies into it. The loop's
// alone.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace flyball::http {

class SpareBody {
 public:
  static constexpr std::size_t kLeast = 128 * 1024;           // malloc has room for shorter ones itself
  static constexpr std::size_t kMost = std::size_t{1} << 20;  // what an idle daemon keeps

  // Bytes to reserve for a body of this length. Reserved bytes that nobody writes to take no memory, and a
  // chat that grows from turn to turn fits where it was.
  static std::size_t room_for(std::uint64_t length) noexcept {
    return length < kLeast || length > kMost ? length : std::bit_ceil(length);
  }
  static bool keeps(const std::string& body) noexcept {
    return body.capacity() >= kLeast && body.capacity() <= kMost;
  }
  // An empty string, with room for so many bytes if there is a spare that has it. A body is charged by its
  // length: it gets no more than twice that.
  std::string take(std::uint64_t bytes) {
    if (bytes < kLeast || bytes > spare_.capacity() || spare_.capacity() / 2 > bytes) return {};
    return std::exchange(spare_, {});
  }
  // In place of the spare at hand.
  void keep(std::string body) {
    if (!keeps(body)) return;
    spare_ = std::move(body);
    spare_.clear();
  }

 private:
  std::string spare_;
};

}  // namespace flyball::http
