// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): a hash of text under a
// secret key. A stranger who chooses the texts cannot make more of them collide than chance does.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace flyball {

class KeyedHash {
 public:
  KeyedHash(std::uint64_t k0, std::uint64_t k1) noexcept : k0_(k0), k1_(k1) {}
  static KeyedHash random() {
    std::random_device bits;
    const auto word = [&] { return std::uint64_t{bits()} << 32 | bits(); };
    return {word(), word()};
  }

  std::uint64_t operator()(std::string_view text) const noexcept {
    State s{k0_ ^ 0x736F6D6570736575, k1_ ^ 0x646F72616E646F6D, k0_ ^ 0x6C7967656E657261,
            k1_ ^ 0x7465646279746573};
    const std::uint64_t last = std::uint64_t{text.size()} << 56;
    for (; text.size() >= 8; text.remove_prefix(8)) s.take(word_of(text.data(), 8));
    s.take(last | word_of(text.data(), text.size()));
    s.v2 ^= 0xFF;
    for (int i = 0; i < 3; ++i) s.round();
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  }

 private:
  struct State {
    std::uint64_t v0, v1, v2, v3;
    void round() noexcept {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32) + v3;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
    void take(std::uint64_t word) noexcept {
      v3 ^= word;
      round();
      v0 ^= word;
    }
  };
  // n bytes at `at`, at most eight, the first the lowest.
  static std::uint64_t word_of(const char* at, std::size_t n) noexcept {
    std::uint64_t word = 0;
    if (n > 0) std::memcpy(&word, at, n);
    return std::endian::native == std::endian::little ? word : std::byteswap(word);
  }

  std::uint64_t k0_, k1_;
};

}  // namespace flyball
