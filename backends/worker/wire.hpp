// Bytes of the worker protocol: LEB128 integers, IEEE floats, length-prefixed strings, and the frame:
//   [u32 little-endian payload length][payload]
// Reading trusts nothing: a bad byte makes the reader fail for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "config/utf8.hpp"

namespace flyball::worker {

// One start frame carries one HTTP body and the tokens generated so far; config caps the body well below
// this.
inline constexpr std::size_t kMaxFrameBytes = 32U << 20;
inline constexpr std::size_t kFrameHeaderBytes = 4;

// A stretch of a frame: bytes of its own, or bytes that it shares with the message.
struct FramePiece {
  std::string own;
  std::shared_ptr<const std::string> shared;  // nullptr: the bytes are its own
  std::string_view bytes() const noexcept { return shared ? std::string_view(*shared) : own; }
};

class WireWriter {
 public:
  // A shared string of at least this length becomes a piece of the frame: a copy would cost its bytes, and
  // often fresh pages from the system.
  static constexpr std::size_t kSharedBytes = 64 * 1024;

  void u64(std::uint64_t value);
  void i32(std::int32_t value);  // zigzag
  void f32(float value);
  void flag(bool value) { u64(value ? 1 : 0); }
  void bytes(std::string_view value);
  void bytes(const std::shared_ptr<const std::string>& value);  // nullptr: none
  std::size_t payload_bytes() const noexcept { return shut_bytes_ + out_.size() - kFrameHeaderBytes; }
  // Header and payload, in the order in which they are sent. Nothing is written after it.
  std::vector<FramePiece> pieces();
  std::string framed();  // the same in one string

 private:
  std::vector<FramePiece> shut_;  // all pieces but the last
  std::size_t shut_bytes_ = 0;
  std::string out_ =
      std::string(kFrameHeaderBytes, '\0');  // room for the header: a frame is not copied for it
};

// After the first bad field every read returns zeros and ok() stays false; the caller checks once at the end.
class WireReader {
 public:
  explicit WireReader(std::string_view payload) : data_(payload) {}
  std::uint64_t u64(std::uint64_t max, const char* field);
  std::uint32_t u32(const char* field) { return static_cast<std::uint32_t>(u64(UINT32_MAX, field)); }
  std::int32_t i32(const char* field);
  float f32(const char* field);  // finite
  bool flag(const char* field) { return u64(1, field) == 1; }
  std::string bytes(std::size_t max, const char* field);
  std::string text(std::size_t max, const char* field);  // bytes that are UTF-8
  // How many elements follow: each takes at least `min_bytes`, so a count can never ask for more than was
  // sent.
  std::size_t count(std::size_t max, std::size_t min_bytes, const char* field);
  void refuse(const char* field, std::string why);
  bool ok() const noexcept { return !error_; }
  Result<void> finish();  // `internal` naming field and byte, also for bytes left over

 private:
  std::string_view data_;
  std::size_t at_ = 0;
  std::optional<Error> error_;
};

// Collects received bytes and cuts frames out of them. Holds at most one frame and one read beyond it.
class FrameBuffer {
 public:
  explicit FrameBuffer(std::size_t max_frame = kMaxFrameBytes) : max_frame_(max_frame) {}
  void append(std::string_view received);
  // The next whole payload, valid until the next call; nullopt: more bytes are needed; an empty or oversize
  // frame is an error and ends the connection.
  Result<std::optional<std::string_view>> next();
  std::size_t buffered() const noexcept { return buffer_.size() - start_; }

 private:
  std::size_t max_frame_;
  std::string buffer_;
  std::size_t start_ = 0;
};

}  // namespace flyball::worker
