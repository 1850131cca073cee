// Eight lanes in plain C++ under the names the *.inl kernels are written in: what runs where nothing better
// does.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/formats/bf16.hpp"
#include "kernels/formats/f16.hpp"

namespace flyball::kernels::cpu {
namespace {

#define FLYBALL_INLINE [[gnu::always_inline]] static inline

struct Simd {
  static constexpr int kLanes = 8;
  static constexpr int kIntTileTokens = 1;  // memory, not registers, holds the sums: tiles gain nothing
  static constexpr int kFloatTileTokens = 1;
  static constexpr int kAttendHeads = 2;
  static constexpr int kAttendVectors = 1;

  struct F {
    float v[8];
  };
  struct I {
    std::int32_t v[8];
  };
  using Half = I;

  template <typename Op>
  FLYBALL_INLINE F each(Op op) {
    F r;
    for (int i = 0; i < 8; ++i) r.v[i] = op(i);
    return r;
  }
  template <typename Op>
  FLYBALL_INLINE I each_int(Op op) {
    I r;
    for (int i = 0; i < 8; ++i) r.v[i] = static_cast<std::int32_t>(op(i));
    return r;
  }

  // ---- f32 ------------------------------------------------------------------------------------------------
  FLYBALL_INLINE F zero() { return {}; }
  FLYBALL_INLINE F set1(float x) {
    return each([&](int) { return x; });
  }
  FLYBALL_INLINE F load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  FLYBALL_INLINE F load_n(const float* p, int n) {
    return each([&](int i) { return i < n ? p[i] : 0.0F; });
  }
  FLYBALL_INLINE void store(float* p, F x) { std::memcpy(p, x.v, sizeof(x.v)); }
  FLYBALL_INLINE void store_n(float* p, F x, int n) { std::memcpy(p, x.v, static_cast<std::size_t>(n) * 4); }
  FLYBALL_INLINE F add(F a, F b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  FLYBALL_INLINE F sub(F a, F b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  FLYBALL_INLINE F mul(F a, F b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  FLYBALL_INLINE F div(F a, F b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  FLYBALL_INLINE F fma(F a, F b, F c) { return add(mul(a, b), c); }
  FLYBALL_INLINE F fnma(F a, F b, F c) { return sub(c, mul(a, b)); }
  FLYBALL_INLINE F max(F a, F b) {  // b where either is NaN
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  FLYBALL_INLINE F min(F a, F b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  FLYBALL_INLINE F abs(F a) {
    return each([&](int i) { return std::fabs(a.v[i]); });
  }
  FLYBALL_INLINE F round(F a) {
    return each([&](int i) { return std::nearbyintf(a.v[i]); });
  }
  FLYBALL_INLINE F pow2(F n) {  // n integral, -126..127
    return each([&](int i) {
      const float k = n.v[i] == n.v[i] ? n.v[i] : 0.0F;  // NaN has no integer; the caller's product stays NaN
      return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(k) + 127) << 23);
    });
  }
  FLYBALL_INLINE float reduce_add(F a) {
    return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
  }
  FLYBALL_INLINE float reduce_max(F a) {
    float m = a.v[0];
    for (int i = 1; i < 8; ++i) m = m > a.v[i] ? m : a.v[i];
    return m;
  }
  // Lane i of the result is the sum of the lanes of x[i].
  FLYBALL_INLINE F reduce_lanes(const F (&x)[8]) {
    return each([&](int i) { return reduce_add(x[i]); });
  }

  // ---- conversions ----------------------------------------------------------------------------------------
  template <typename T>
  FLYBALL_INLINE T at(const void* p, int i) {
    T x;
    std::memcpy(&x, static_cast<const std::uint8_t*>(p) + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return x;
  }
  static F load_f16(const void* p) {
    return each([&](int i) { return f16_to_f32(at<std::uint16_t>(p, i)); });
  }
  static F load_f16_n(const void* p, int n) {
    return each([&](int i) { return i < n ? f16_to_f32(at<std::uint16_t>(p, i)) : 0.0F; });
  }
  static F load_bf16(const void* p) {
    return each([&](int i) { return bf16_to_f32(at<std::uint16_t>(p, i)); });
  }
  static F load_u8(const void* p) {
    return each([&](int i) { return static_cast<float>(at<std::uint8_t>(p, i)); });
  }
  static F load_i8(const void* p) {
    return each([&](int i) { return static_cast<float>(at<std::int8_t>(p, i)); });
  }
  FLYBALL_INLINE void store_f16(std::uint16_t* p, F x) { store_f16_n(p, x, 8); }
  FLYBALL_INLINE void store_f16_n(std::uint16_t* p, F x, int n) {
    for (int i = 0; i < n; ++i) p[i] = f32_to_f16(x.v[i]);
  }
  // Saturates at int8, all that is asked of it; NaN gives the lowest, as the vector units do.
  FLYBALL_INLINE I round_to_int(F x) {
    return each_int([&](int i) {
      if (!(x.v[i] > -128.0F)) return -128L;
      return x.v[i] < 127.0F ? std::lrintf(x.v[i]) : 127L;
    });
  }
  FLYBALL_INLINE F to_f32(I x) {
    return each([&](int i) { return static_cast<float>(x.v[i]); });
  }
  FLYBALL_INLINE void store_i8(std::int8_t* p, I x) {
    for (int i = 0; i < 8; ++i) p[i] = static_cast<std::int8_t>(x.v[i]);
  }
  FLYBALL_INLINE int reduce_add(I a) {
    int s = 0;
    for (int i = 0; i < 8; ++i) s += a.v[i];
    return s;
  }

  // ---- int8 dot products: each lane a row, four columns ("a quad") at a time, as the bytes of an int32 ----
  static constexpr int kSignedOffset = 0;
  static constexpr int quads_per_half(int /*max_quant*/) { return 8; }
  FLYBALL_INLINE I set1_i32(std::int32_t x) {
    return each_int([&](int) { return x; });
  }
  FLYBALL_INLINE I load_quads(const void* p) {
    I r;
    std::memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  FLYBALL_INLINE I broadcast_quad(const void* p) { return set1_i32(at<std::int32_t>(p, 0)); }
  FLYBALL_INLINE std::uint32_t bits(I x, int i) { return static_cast<std::uint32_t>(x.v[i]); }
  static I low_nibbles(I x) {
    return each_int([&](int i) { return bits(x, i) & 0x0F0F0F0FU; });
  }
  static I high_nibbles(I x) {
    return each_int([&](int i) { return (bits(x, i) >> 4) & 0x0F0F0F0FU; });
  }
  // low | (x shifted left by kLeft, right if negative) & mask, per byte
  template <int kLeft>
  static I or_shifted(I low, I x, std::uint8_t mask) {
    return each_int([&](int i) {
      const std::uint32_t shifted =
          kLeft >= 0 ? bits(x, i) << (kLeft >= 0 ? kLeft : 0) : bits(x, i) >> (kLeft < 0 ? -kLeft : 0);
      return bits(low, i) | (shifted & (mask * 0x01010101U));
    });
  }
  // Sixteen bytes for lookup(): byte n of the table for each byte n below 16.
  FLYBALL_INLINE I load_table(const std::int8_t (&bytes)[16]) {
    I r = {};
    std::memcpy(r.v, bytes, sizeof(bytes));
    return r;
  }
  static I lookup(I table, I n) {
    return each_int([&](int i) {
      std::uint32_t r = 0;
      for (int b = 0; b < 32; b += 8)
        r |= std::uint32_t{at<std::uint8_t>(table.v, static_cast<int>(bits(n, i) >> b & 0x0F))} << b;
      return r;
    });
  }
  FLYBALL_INLINE I from_signed(I x) { return x; }
  FLYBALL_INLINE Half begin(I total) { return total; }
  static Half dot(Half sum, I w, I a) {
    return each_int([&](int i) {
      int s = sum.v[i];
      for (int b = 0; b < 32; b += 8) {
        s += static_cast<int>((bits(w, i) >> b) & 0xFFU) * static_cast<std::int8_t>(bits(a, i) >> b);
      }
      return s;
    });
  }
  static Half dot_signed(Half sum, I w, I a) {
    return each_int([&](int i) {
      int s = sum.v[i];
      for (int b = 0; b < 32; b += 8) {
        s += static_cast<std::int8_t>(bits(w, i) >> b) * static_cast<std::int8_t>(bits(a, i) >> b);
      }
      return s;
    });
  }
  FLYBALL_INLINE I end(I /*total*/, Half sum) { return sum; }

  FLYBALL_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
  static I add_u64(I a, I b) {
    I r;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t sum = at<std::uint64_t>(a.v, i) + at<std::uint64_t>(b.v, i);
      std::memcpy(r.v + 2 * i, &sum, sizeof(sum));
    }
    return r;
  }
  static std::uint64_t reduce_u64(I a) {
    return at<std::uint64_t>(a.v, 0) + at<std::uint64_t>(a.v, 1) + at<std::uint64_t>(a.v, 2) +
           at<std::uint64_t>(a.v, 3);
  }
};

}  // namespace
}  // namespace flyball::kernels::cpu
