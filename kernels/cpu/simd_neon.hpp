// Eight lanes, two registers each, of NEON with dot products (ARMv8.2, FEAT_DotProd) under the names the
// *.inl kernels are written in. Anonymous namespace, always inlined: nothing compiled with these flags may be
// shared with other files.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace flyball::kernels::cpu {
namespace {

#define FLYBALL_INLINE [[gnu::always_inline]] static inline

struct Simd {
  static constexpr int kLanes = 8;
  static constexpr int kIntTileTokens = 4;    // 16 of 32 registers are sums
  static constexpr int kFloatTileTokens = 6;  // 24 sums, 4 weights, 1 activation
  static constexpr int kAttendHeads = 4;
  static constexpr int kAttendVectors = 2;

  struct F {
    float32x4_t v[2];
  };
  struct I {
    int32x4_t v[2];
  };
  using Half = I;

  FLYBALL_INLINE int8x16_t bytes(int32x4_t x) { return vreinterpretq_s8_s32(x); }
  FLYBALL_INLINE uint8x16_t ubytes(int32x4_t x) { return vreinterpretq_u8_s32(x); }
  FLYBALL_INLINE int32x4_t words(uint8x16_t x) { return vreinterpretq_s32_u8(x); }

  // ---- f32 ------------------------------------------------------------------------------------------------
  FLYBALL_INLINE F zero() { return set1(0.0F); }
  FLYBALL_INLINE F set1(float x) { return {{vdupq_n_f32(x), vdupq_n_f32(x)}}; }
  FLYBALL_INLINE F load(const float* p) { return {{vld1q_f32(p), vld1q_f32(p + 4)}}; }
  FLYBALL_INLINE F load_n(const float* p, int n) {
    float x[8] = {};
    std::memcpy(x, p, static_cast<std::size_t>(n) * 4);
    return load(x);
  }
  FLYBALL_INLINE void store(float* p, F x) {
    vst1q_f32(p, x.v[0]);
    vst1q_f32(p + 4, x.v[1]);
  }
  FLYBALL_INLINE void store_n(float* p, F x, int n) {
    float all[8];
    store(all, x);
    std::memcpy(p, all, static_cast<std::size_t>(n) * 4);
  }
  FLYBALL_INLINE F add(F a, F b) { return {{vaddq_f32(a.v[0], b.v[0]), vaddq_f32(a.v[1], b.v[1])}}; }
  FLYBALL_INLINE F sub(F a, F b) { return {{vsubq_f32(a.v[0], b.v[0]), vsubq_f32(a.v[1], b.v[1])}}; }
  FLYBALL_INLINE F mul(F a, F b) { return {{vmulq_f32(a.v[0], b.v[0]), vmulq_f32(a.v[1], b.v[1])}}; }
  FLYBALL_INLINE F div(F a, F b) { return {{vdivq_f32(a.v[0], b.v[0]), vdivq_f32(a.v[1], b.v[1])}}; }
  FLYBALL_INLINE F fma(F a, F b, F c) {
    return {{vfmaq_f32(c.v[0], a.v[0], b.v[0]), vfmaq_f32(c.v[1], a.v[1], b.v[1])}};
  }
  FLYBALL_INLINE F fnma(F a, F b, F c) {
    return {{vfmsq_f32(c.v[0], a.v[0], b.v[0]), vfmsq_f32(c.v[1], a.v[1], b.v[1])}};
  }
  FLYBALL_INLINE F select(const uint32x4_t (&mask)[2], F a, F b) {
    return {{vbslq_f32(mask[0], a.v[0], b.v[0]), vbslq_f32(mask[1], a.v[1], b.v[1])}};
  }
  FLYBALL_INLINE F max(F a, F b) {  // b where either is NaN
    return select({vcgtq_f32(a.v[0], b.v[0]), vcgtq_f32(a.v[1], b.v[1])}, a, b);
  }
  FLYBALL_INLINE F min(F a, F b) {
    return select({vcltq_f32(a.v[0], b.v[0]), vcltq_f32(a.v[1], b.v[1])}, a, b);
  }
  FLYBALL_INLINE F abs(F a) { return {{vabsq_f32(a.v[0]), vabsq_f32(a.v[1])}}; }
  FLYBALL_INLINE F round(F a) { return {{vrndnq_f32(a.v[0]), vrndnq_f32(a.v[1])}}; }
  FLYBALL_INLINE F pow2(F n) {  // n integral, -126..127
    const auto power = [](float32x4_t x) {
      return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(127)), 23));
    };
    return {{power(n.v[0]), power(n.v[1])}};
  }
  FLYBALL_INLINE float reduce_add(F a) { return vaddvq_f32(vaddq_f32(a.v[0], a.v[1])); }
  FLYBALL_INLINE float reduce_max(F a) { return vmaxvq_f32(vmaxq_f32(a.v[0], a.v[1])); }
  // Lane i of the result is the sum of the lanes of x[i].
  FLYBALL_INLINE F reduce_lanes(const F (&x)[8]) {
    float32x4_t s[8];
    for (int i = 0; i < 8; ++i) s[i] = vaddq_f32(x[i].v[0], x[i].v[1]);
    return {{vpaddq_f32(vpaddq_f32(s[0], s[1]), vpaddq_f32(s[2], s[3])),
             vpaddq_f32(vpaddq_f32(s[4], s[5]), vpaddq_f32(s[6], s[7]))}};
  }

  // ---- conversions ----------------------------------------------------------------------------------------
  FLYBALL_INLINE F from_halves(float16x8_t h) {
    return {{vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)}};
  }
  FLYBALL_INLINE F load_f16(const void* p) {
    return from_halves(vreinterpretq_f16_u8(vld1q_u8(static_cast<const std::uint8_t*>(p))));
  }
  FLYBALL_INLINE F load_f16_n(const void* p, int n) {
    std::uint16_t h[8] = {};
    std::memcpy(h, p, static_cast<std::size_t>(n) * 2);
    return load_f16(h);
  }
  FLYBALL_INLINE F load_bf16(const void* p) {
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)));
    return {{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
             vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))}};
  }
  FLYBALL_INLINE F load_u8(const void* p) {
    const uint16x8_t h = vmovl_u8(vld1_u8(static_cast<const std::uint8_t*>(p)));
    return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(h))), vcvtq_f32_u32(vmovl_high_u16(h))}};
  }
  FLYBALL_INLINE F load_i8(const void* p) {
    const int16x8_t h = vmovl_s8(vld1_s8(static_cast<const std::int8_t*>(p)));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(h))), vcvtq_f32_s32(vmovl_high_s16(h))}};
  }
  FLYBALL_INLINE void store_f16(std::uint16_t* p, F x) {
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.v[0]), x.v[1])));
  }
  FLYBALL_INLINE void store_f16_n(std::uint16_t* p, F x, int n) {
    std::uint16_t h[8];
    store_f16(h, x);
    std::memcpy(p, h, static_cast<std::size_t>(n) * 2);
  }
  FLYBALL_INLINE I round_to_int(F x) { return {{vcvtnq_s32_f32(x.v[0]), vcvtnq_s32_f32(x.v[1])}}; }
  FLYBALL_INLINE F to_f32(I x) { return {{vcvtq_f32_s32(x.v[0]), vcvtq_f32_s32(x.v[1])}}; }
  FLYBALL_INLINE void store_i8(std::int8_t* p, I x) {
    vst1_s8(p, vqmovn_s16(vcombine_s16(vqmovn_s32(x.v[0]), vqmovn_s32(x.v[1]))));
  }
  FLYBALL_INLINE int reduce_add(I a) { return vaddvq_s32(vaddq_s32(a.v[0], a.v[1])); }

  // ---- int8 dot products: each lane a row, four columns ("a quad") at a time ------------------------------
  // Unsigned quants stay below 64, so that the signed instruction serves both kinds.
  static constexpr int kSignedOffset = 0;
  static constexpr int quads_per_half(int /*max_quant*/) { return 8; }
  FLYBALL_INLINE I set1_i32(std::int32_t x) { return {{vdupq_n_s32(x), vdupq_n_s32(x)}}; }
  FLYBALL_INLINE I load_quads(const void* p) {
    const auto* b = static_cast<const std::uint8_t*>(p);
    return {{words(vld1q_u8(b)), words(vld1q_u8(b + 16))}};
  }
  FLYBALL_INLINE I broadcast_quad(const void* p) {
    std::int32_t quad;
    std::memcpy(&quad, p, sizeof(quad));
    return set1_i32(quad);
  }
  FLYBALL_INLINE I low_nibbles(I x) {
    const uint8x16_t mask = vdupq_n_u8(0x0F);
    return {{words(vandq_u8(ubytes(x.v[0]), mask)), words(vandq_u8(ubytes(x.v[1]), mask))}};
  }
  FLYBALL_INLINE I high_nibbles(I x) {
    return {{words(vshrq_n_u8(ubytes(x.v[0]), 4)), words(vshrq_n_u8(ubytes(x.v[1]), 4))}};
  }
  // low | (x shifted left by kLeft, right if negative) & mask, per byte
  template <int kLeft>
  FLYBALL_INLINE I or_shifted(I low, I x, std::uint8_t mask) {
    const auto one = [&](int32x4_t to, int32x4_t from) {
      uint8x16_t shifted = ubytes(from);
      if constexpr (kLeft > 0) shifted = vshlq_n_u8(shifted, kLeft);
      if constexpr (kLeft < 0) shifted = vshrq_n_u8(shifted, -kLeft);
      return words(vorrq_u8(ubytes(to), vandq_u8(shifted, vdupq_n_u8(mask))));
    };
    return {{one(low.v[0], x.v[0]), one(low.v[1], x.v[1])}};
  }
  // Sixteen bytes for lookup(): byte n of the table for each byte n below 16.
  FLYBALL_INLINE I load_table(const std::int8_t (&bytes)[16]) {
    const int32x4_t table = vreinterpretq_s32_s8(vld1q_s8(bytes));
    return {{table, table}};
  }
  FLYBALL_INLINE I lookup(I table, I n) {
    return {{words(vqtbl1q_u8(ubytes(table.v[0]), ubytes(n.v[0]))),
             words(vqtbl1q_u8(ubytes(table.v[1]), ubytes(n.v[1])))}};
  }
  FLYBALL_INLINE I from_signed(I x) { return x; }
  FLYBALL_INLINE Half begin(I total) { return total; }
  FLYBALL_INLINE Half dot(Half sum, I w, I a) {
    return {{vdotq_s32(sum.v[0], bytes(w.v[0]), bytes(a.v[0])),
             vdotq_s32(sum.v[1], bytes(w.v[1]), bytes(a.v[1]))}};
  }
  FLYBALL_INLINE Half dot_signed(Half sum, I w, I a) { return dot(sum, w, a); }
  FLYBALL_INLINE I end(I /*total*/, Half sum) { return sum; }

  FLYBALL_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
  FLYBALL_INLINE I add_u64(I a, I b) {
    const auto one = [](int32x4_t x, int32x4_t y) {
      return vreinterpretq_s32_u64(vaddq_u64(vreinterpretq_u64_s32(x), vreinterpretq_u64_s32(y)));
    };
    return {{one(a.v[0], b.v[0]), one(a.v[1], b.v[1])}};
  }
  FLYBALL_INLINE std::uint64_t reduce_u64(I a) {
    return vaddvq_u64(vaddq_u64(vreinterpretq_u64_s32(a.v[0]), vreinterpretq_u64_s32(a.v[1])));
  }
};

}  // namespace
}  // namespace flyball::kernels::cpu
