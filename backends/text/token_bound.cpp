#include "backends/text/token_bound.hpp"

#include <algorithm>

namespace flyball::text {
namespace {

// C0, C1 and F5 to FF are in no well-formed UTF-8.
constexpr bool is_in_utf8(std::size_t byte) noexcept {
  return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5);
}

}  // namespace

void TokenBound::covers(std::string_view text, std::size_t tokens) noexcept {
  const std::size_t bytes = (text.size() + tokens - 1) / tokens;
  for (const char c : text) covers(static_cast<unsigned char>(c), bytes);
}

void TokenBound::covers(unsigned char byte, std::size_t bytes) noexcept {
  shares_[byte] = std::min(shares_[byte], kToken / bytes);
}

void TokenBound::loses(std::string_view bytes) noexcept {
  for (const char c : bytes) shares_[static_cast<unsigned char>(c)] = 0;
}

std::uint64_t TokenBound::least(std::string_view text) const noexcept {
  std::uint64_t sum = 0;  // a text of 2^31 bytes stays below 2^63
  for (const char c : text) sum += shares_[static_cast<unsigned char>(c)];
  return (sum + kToken - 1) / kToken;
}

std::uint64_t TokenBound::least_of(std::size_t bytes) const noexcept {
  const auto most = most_bytes();
  return most ? (bytes + *most - 1) / *most : 0;
}

std::optional<std::size_t> TokenBound::most_bytes() const noexcept {
  std::uint64_t least = kToken;
  for (std::size_t byte = 0; byte < shares_.size(); ++byte)
    if (is_in_utf8(byte)) least = std::min(least, shares_[byte]);
  if (least == 0) return std::nullopt;
  return kToken / least;  // of n bytes a share is kToken / n, rounded down: this is n again
}

}  // namespace flyball::text
