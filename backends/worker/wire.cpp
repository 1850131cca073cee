#include "backends/worker/wire.hpp"

#include <bit>
#include <cmath>
#include <utility>

namespace flyball::worker {

// ---- writing ----------------------------------------------------------------------------------------------

void WireWriter::u64(std::uint64_t value) {
  while (value >= 0x80) {
    out_.push_back(static_cast<char>(0x80 | (value & 0x7F)));
    value >>= 7;
  }
  out_.push_back(static_cast<char>(value));
}

void WireWriter::i32(std::int32_t value) {
  u64((static_cast<std::uint32_t>(value) << 1) ^ static_cast<std::uint32_t>(value >> 31));
}

void WireWriter::f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out_.push_back(static_cast<char>((bits >> shift) & 0xFF));
}

void WireWriter::bytes(std::string_view value) {
  u64(value.size());
  out_.append(value);
}

void WireWriter::bytes(const std::shared_ptr<const std::string>& value) {
  if (value == nullptr || value->size() < kSharedBytes)
    return bytes(value ? std::string_view(*value) : std::string_view());
  u64(value->size());
  shut_bytes_ += out_.size() + value->size();
  shut_.push_back({std::exchange(out_, {}), nullptr});
  shut_.push_back({{}, value});
}

std::vector<FramePiece> WireWriter::pieces() {
  const auto length = static_cast<std::uint32_t>(payload_bytes());
  std::string& first = shut_.empty() ? out_ : shut_.front().own;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i)
    first[i] = static_cast<char>((length >> (8 * i)) & 0xFF);
  if (!out_.empty()) shut_.push_back({std::move(out_), nullptr});
  return std::move(shut_);
}

std::string WireWriter::framed() {
  std::vector<FramePiece> all = pieces();
  std::string out = std::move(all.front().own);
  for (const FramePiece& piece : std::span(all).subspan(1)) out += piece.bytes();
  return out;
}

// ---- reading ----------------------------------------------------------------------------------------------

void WireReader::refuse(const char* field, std::string why) {
  if (!error_) {
    error_ = Error{ErrorCode::internal, std::string("worker frame: ") + field + " " + std::move(why), field,
                   "byte " + std::to_string(at_)};
  }
}

std::uint64_t WireReader::u64(std::uint64_t max, const char* field) {
  if (error_) return 0;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ >= data_.size()) {
      refuse(field, "is cut off");
      return 0;
    }
    const auto byte = static_cast<unsigned char>(data_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      if (byte == 0 && shift > 0) break;  // one spelling per number
      if (value <= max) return value;
      refuse(field, "is " + std::to_string(value) + ", the limit is " + std::to_string(max));
      return 0;
    }
  }
  refuse(field, "is not a canonical integer");
  return 0;
}

std::int32_t WireReader::i32(const char* field) {
  const auto raw = static_cast<std::uint32_t>(u64(UINT32_MAX, field));
  return static_cast<std::int32_t>((raw >> 1) ^ (0U - (raw & 1U)));
}

float WireReader::f32(const char* field) {
  if (error_) return 0;
  if (data_.size() - at_ < 4) {
    refuse(field, "is cut off");
    return 0;
  }
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < 4; ++i)
    bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(data_[at_ + i])) << (8 * i);
  const auto value = std::bit_cast<float>(bits);
  if (!std::isfinite(value)) {
    refuse(field, "is not finite");
    return 0;
  }
  at_ += 4;
  return value;
}

std::string WireReader::bytes(std::size_t max, const char* field) {
  const auto size = static_cast<std::size_t>(u64(max, field));
  if (error_) return {};
  if (size > data_.size() - at_) {
    refuse(field,
           "claims " + std::to_string(size) + " bytes, " + std::to_string(data_.size() - at_) + " remain");
    return {};
  }
  std::string value(data_.substr(at_, size));
  at_ += size;
  return value;
}

std::string WireReader::text(std::size_t max, const char* field) {
  std::string value = bytes(max, field);
  if (!is_utf8(value)) {
    refuse(field, "is not UTF-8");
    return {};
  }
  return value;
}

std::size_t WireReader::count(std::size_t max, std::size_t min_bytes, const char* field) {
  const auto n = static_cast<std::size_t>(u64(max, field));
  if (error_) return 0;
  if (n > (data_.size() - at_) / min_bytes) {
    refuse(field,
           "claims " + std::to_string(n) + " elements in " + std::to_string(data_.size() - at_) + " bytes");
    return 0;
  }
  return n;
}

Result<void> WireReader::finish() {
  if (!error_ && at_ != data_.size())
    refuse("end", "has " + std::to_string(data_.size() - at_) + " bytes left over");
  if (error_) return std::unexpected(*error_);
  return {};
}

// ---- frames -----------------------------------------------------------------------------------------------

void FrameBuffer::append(std::string_view received) {
  if (start_ > 0 && (start_ == buffer_.size() || start_ >= 64 * 1024)) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  // A large frame is rare: its memory is given back when it has been read.
  if (buffer_.empty() && buffer_.capacity() > 1024 * 1024) buffer_.shrink_to_fit();
  buffer_.append(received);
}

Result<std::optional<std::string_view>> FrameBuffer::next() {
  if (buffered() < kFrameHeaderBytes) return std::nullopt;
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(buffer_[start_ + i])) << (8 * i);
  }
  if (length == 0 || length > max_frame_) {
    return fail(ErrorCode::internal,
                "worker frame: length is " + std::to_string(length) + ", allowed are 1 to " +
                    std::to_string(max_frame_),
                "length");
  }
  if (buffered() - kFrameHeaderBytes < length) return std::nullopt;
  const std::string_view payload(buffer_.data() + start_ + kFrameHeaderBytes, length);
  start_ += kFrameHeaderBytes + length;
  return payload;
}

}  // namespace flyball::worker
