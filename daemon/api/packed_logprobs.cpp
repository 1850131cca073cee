#include "daemon/api/packed_logprobs.hpp"

#include <cstring>
#include <tuple>

namespace flyball::api {
namespace {

constexpr std::size_t kInText = 1, kKnown = 2;

// Seven bits a byte, the lowest first; the top bit says that more follow.
void put(std::string& out, std::size_t n) {
  for (; n >= 0x80; n >>= 7) out.push_back(static_cast<char>(n | 0x80));
  out.push_back(static_cast<char>(n));
}

void put(std::string& out, std::string_view bytes, float logprob) {
  put(out, bytes.size());
  out.append(bytes);
  char raw[sizeof logprob];
  std::memcpy(raw, &logprob, sizeof raw);
  out.append(raw, sizeof raw);
}

std::size_t get(std::string_view block, std::size_t& at) {
  std::size_t n = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(block[at++]);
    n |= static_cast<std::size_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return n;
  }
}

std::pair<std::string_view, float> get_token(std::string_view block, std::size_t& at) {
  const std::size_t size = get(block, at);
  const std::string_view bytes = block.substr(at, size);
  float logprob = 0;
  std::memcpy(&logprob, block.data() + at + size, sizeof logprob);
  at += size + sizeof logprob;
  return {bytes, logprob};
}

// At least what put() needs.
std::size_t packed_bytes(const TokenLogprob& token) {
  constexpr std::size_t kOverhead = 8 + sizeof(float);
  std::size_t n = token.bytes.size() + 2 * kOverhead;
  for (const auto& [bytes, logprob] : token.top) n += bytes.size() + kOverhead;
  return n;
}

}  // namespace

void LogprobView::read(const TokenLogprob& token) {
  bytes = token.bytes;
  logprob = token.logprob;
  top.assign(token.top.begin(), token.top.end());
  in_text = token.in_text;
  known = token.known;
}

void PackedLogprobs::append(const TokenLogprob& token) {
  const std::size_t need = packed_bytes(token);
  // The first block grows as it must: most answers are short.
  if (blocks_.empty()) {
    blocks_.emplace_back();
  } else if (blocks_.back().size() + need > kBlockBytes) {
    blocks_.emplace_back().reserve(kBlockBytes);
    bytes_ += kBlockBytes;
  }
  std::string& block = blocks_.back();
  const std::size_t before = block.capacity();
  put(block, token.bytes, token.logprob);
  put(block, (token.in_text ? kInText : 0U) | (token.known ? kKnown : 0U));
  put(block, token.top.size());
  for (const auto& [bytes, logprob] : token.top) put(block, bytes, logprob);
  bytes_ += block.capacity() - before;
  ++tokens_;
}

bool PackedLogprobs::read(Cursor& cursor, LogprobView& out) const {
  if (cursor.block < blocks_.size() && cursor.at == blocks_[cursor.block].size())
    cursor = {cursor.block + 1, 0};
  if (cursor.block >= blocks_.size()) return false;
  const std::string_view block = blocks_[cursor.block];
  std::tie(out.bytes, out.logprob) = get_token(block, cursor.at);
  const std::size_t flags = get(block, cursor.at);
  out.in_text = (flags & kInText) != 0;
  out.known = (flags & kKnown) != 0;
  out.top.clear();
  for (std::size_t n = get(block, cursor.at); n > 0; --n) out.top.push_back(get_token(block, cursor.at));
  return true;
}

}  // namespace flyball::api
