// The least number of tokens that a text can be, told from its bytes alone. A byte counts 1/n of a token,
// where n is the size of the longest token that the byte can be part of: the bytes of one token never add up
// to more than one, whatever way the text is cut into tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace flyball::text {

class TokenBound {
 public:
  // Text that `tokens` tokens (> 0) can stand for, by its bytes.
  void covers(std::string_view text, std::size_t tokens = 1) noexcept;
  // `bytes` of text that one token can stand for, this byte among them.
  void covers(unsigned char byte, std::size_t bytes) noexcept;
  // Any number of these bytes can vanish, in no token or beside one.
  void loses(std::string_view bytes) noexcept;

  // A text of well-formed UTF-8 is no fewer tokens. One look at each byte.
  std::uint64_t least(std::string_view text) const noexcept;
  // The same for every text of so many bytes, from their number alone.
  std::uint64_t least_of(std::size_t bytes) const noexcept;
  // The most bytes of well-formed UTF-8 that one token can stand for; nullopt: there is no such bound.
  std::optional<std::size_t> most_bytes() const noexcept;

 private:
  static constexpr std::uint64_t kToken = std::uint64_t{1} << 32U;
  static constexpr std::array<std::uint64_t, 256> all(std::uint64_t share) {
    std::array<std::uint64_t, 256> shares{};
    shares.fill(share);
    return shares;
  }
  std::array<std::uint64_t, 256> shares_ = all(kToken);  // of each byte, in 1/kToken of a token, rounded down
};

}  // namespace flyball::text
