// The places of the quants' bits in GGUF's types of 32 values.
#pragma once

#include <cstdint>

namespace flyball::kernels {

// Byte i of qs: [16] has value i in its low and value i + 16 in its high nibble. q: [32]
inline void unpack_nibbles(const std::uint8_t* qs, std::uint8_t* q) noexcept {
  for (int i = 0; i < 16; ++i) {
    q[i] = qs[i] & 0x0F;
    q[i + 16] = qs[i] >> 4;
  }
}
// The other way, of the low four bits of each.
inline void pack_nibbles(const std::uint8_t* q, std::uint8_t* qs) noexcept {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<std::uint8_t>((q[i] & 0x0F) | ((q[i + 16] & 0x0F) << 4));
}

// Bit i of qh: [4], little-endian, is the fifth bit of value i.
inline void add_fifth_bits(const std::uint8_t* qh, std::uint8_t* q) noexcept {
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::uint8_t>(q[i] | ((qh[i / 8] >> i % 8 & 1) << 4));
}
// The other way.
inline void pack_fifth_bits(const std::uint8_t* q, std::uint8_t* qh) noexcept {
  for (int i = 0; i < 4; ++i) qh[i] = 0;
  for (int i = 0; i < 32; ++i) qh[i / 8] = static_cast<std::uint8_t>(qh[i / 8] | ((q[i] >> 4 & 1) << i % 8));
}

}  // namespace flyball::kernels
