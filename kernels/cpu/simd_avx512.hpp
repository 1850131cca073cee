// Sixteen lanes of AVX-512 (F, BW, VL, DQ, VNNI) under the names the *.inl kernels are written in.
// Anonymous namespace, always inlined: nothing compiled with these flags may be shared with other files.
#pragma once

// GCC 12 reports the deliberately undefined pass-through operands of its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>
#include <cstring>

namespace flyball::kernels::cpu {
namespace {

#define FLYBALL_INLINE [[gnu::always_inline]] static inline

struct Simd {
  static constexpr int kLanes = 16;
  // Two row vectors by this many tokens keep 12 f32 and 12 int32 sums in the 32 registers, beside two weight
  // vectors and one broadcast activation.
  static constexpr int kIntTileTokens = 6;
  static constexpr int kFloatTileTokens = 8;
  static constexpr int kAttendHeads = 4;  // times kAttendVectors: 16 sums
  static constexpr int kAttendVectors = 4;

  struct F {
    __m512 v;
  };
  struct I {
    __m512i v;
  };
  struct Half {  // where sums of 16 bits are needed on the way; not with VNNI
    __m512i v;
  };

  static __mmask16 first(int n) { return static_cast<__mmask16>((1U << n) - 1U); }

  // ---- f32 ------------------------------------------------------------------------------------------------
  FLYBALL_INLINE F zero() { return {_mm512_setzero_ps()}; }
  FLYBALL_INLINE F set1(float x) { return {_mm512_set1_ps(x)}; }
  FLYBALL_INLINE F load(const float* p) { return {_mm512_loadu_ps(p)}; }
  FLYBALL_INLINE F load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  FLYBALL_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x.v); }
  FLYBALL_INLINE void store_n(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first(n), x.v); }
  FLYBALL_INLINE F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
  FLYBALL_INLINE F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
  FLYBALL_INLINE F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
  FLYBALL_INLINE F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
  FLYBALL_INLINE F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  FLYBALL_INLINE F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
  FLYBALL_INLINE F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }  // b where either is NaN
  FLYBALL_INLINE F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
  FLYBALL_INLINE F abs(F a) { return {_mm512_abs_ps(a.v)}; }
  FLYBALL_INLINE F round(F a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  FLYBALL_INLINE F pow2(F n) {  // n integral, -126..127
    return {_mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
  }
  FLYBALL_INLINE float reduce_add(F a) { return _mm512_reduce_add_ps(a.v); }
  FLYBALL_INLINE float reduce_max(F a) { return _mm512_reduce_max_ps(a.v); }
  // Lane i of the result is the sum of the lanes of x[i].
  FLYBALL_INLINE F reduce_lanes(const F (&x)[16]) {
    __m512 a[8];
    for (int i = 0; i < 8; ++i) {  // lanes of 64 bits: x[i], x[i+8] interleaved, pairs summed
      const __m512 lo = _mm512_shuffle_f32x4(x[i].v, x[i + 8].v, 0x44);
      const __m512 hi = _mm512_shuffle_f32x4(x[i].v, x[i + 8].v, 0xEE);
      a[i] = _mm512_add_ps(lo, hi);  // 128-bit lanes: x[i] twice, x[i+8] twice
    }
    __m512 b[4];
    for (int i = 0; i < 4; ++i) {
      const __m512 lo = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
      const __m512 hi = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xDD);
      b[i] = _mm512_add_ps(lo, hi);  // 128-bit lanes: i, i+8, i+4, i+12
    }
    __m512 c[2];
    for (int i = 0; i < 2; ++i) {
      c[i] = _mm512_add_ps(_mm512_unpacklo_ps(b[i], b[i + 2]), _mm512_unpackhi_ps(b[i], b[i + 2]));
    }
    // 32-bit lanes of c[i]: i, i+2, i, i+2 within each 128; then the two c interleaved.
    const __m512 sums = _mm512_add_ps(_mm512_unpacklo_ps(c[0], c[1]), _mm512_unpackhi_ps(c[0], c[1]));
    // 128-bit lanes now start at rows 0, 8, 4, 12 and hold rows base+0..3.
    return {_mm512_shuffle_f32x4(sums, sums, 0xD8)};
  }

  // ---- conversions ----------------------------------------------------------------------------------------
  FLYBALL_INLINE F load_f16(const void* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  FLYBALL_INLINE F load_f16_n(const void* p, int n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
  }
  FLYBALL_INLINE F load_bf16(const void* p) {
    const __m256i h = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
  }
  FLYBALL_INLINE F load_u8(const void* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
  }
  FLYBALL_INLINE F load_i8(const void* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
  }
  FLYBALL_INLINE void store_f16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  FLYBALL_INLINE void store_f16_n(std::uint16_t* p, F x, int n) {
    _mm256_mask_storeu_epi16(p, first(n),
                             _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  FLYBALL_INLINE I round_to_int(F x) { return {_mm512_cvtps_epi32(x.v)}; }
  FLYBALL_INLINE F to_f32(I x) { return {_mm512_cvtepi32_ps(x.v)}; }
  FLYBALL_INLINE void store_i8(std::int8_t* p, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x.v));
  }
  FLYBALL_INLINE int reduce_add(I a) { return _mm512_reduce_add_epi32(a.v); }

  // ---- int8 dot products: each lane a row, four columns ("a quad") at a time ------------------------------
  // Signed weights are offset to unsigned for VNNI; the kernel starts its sums at -offset * sum(activations).
  static constexpr int kSignedOffset = 128;
  // Quads of weights of at most max_quant that one Half can sum.
  static constexpr int quads_per_half(int /*max_quant*/) { return 8; }
  FLYBALL_INLINE I set1_i32(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  FLYBALL_INLINE I load_quads(const void* p) { return {_mm512_loadu_si512(p)}; }
  FLYBALL_INLINE I broadcast_quad(const void* p) {
    std::int32_t quad;
    std::memcpy(&quad, p, sizeof(quad));
    return {_mm512_set1_epi32(quad)};
  }
  FLYBALL_INLINE I low_nibbles(I x) { return {_mm512_and_si512(x.v, _mm512_set1_epi8(0x0F))}; }
  FLYBALL_INLINE I high_nibbles(I x) {
    return {_mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi8(0x0F))};
  }
  // low | (x shifted left by kLeft, right if negative) & mask, per byte
  template <int kLeft>
  FLYBALL_INLINE I or_shifted(I low, I x, std::uint8_t mask) {
    __m512i shifted = x.v;
    if constexpr (kLeft > 0) shifted = _mm512_slli_epi16(x.v, kLeft);
    if constexpr (kLeft < 0) shifted = _mm512_srli_epi16(x.v, -kLeft);
    // 0xF8: a | (b & c)
    return {_mm512_ternarylogic_epi32(low.v, shifted, _mm512_set1_epi8(static_cast<char>(mask)), 0xF8)};
  }
  // Sixteen bytes for lookup(): byte n of the table for each byte n below 16.
  FLYBALL_INLINE I load_table(const std::int8_t (&bytes)[16]) {
    return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)))};
  }
  FLYBALL_INLINE I lookup(I table, I n) { return {_mm512_shuffle_epi8(table.v, n.v)}; }
  FLYBALL_INLINE I from_signed(I x) {
    return {_mm512_xor_si512(x.v, _mm512_set1_epi8(static_cast<char>(0x80)))};
  }
  FLYBALL_INLINE Half begin(I total) { return {total.v}; }
  FLYBALL_INLINE Half dot(Half sum, I w, I a) { return {_mm512_dpbusd_epi32(sum.v, w.v, a.v)}; }
  FLYBALL_INLINE Half dot_signed(Half sum, I w, I a) { return dot(sum, w, a); }
  FLYBALL_INLINE I end(I /*total*/, Half sum) { return {sum.v}; }

  FLYBALL_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
  FLYBALL_INLINE I add_u64(I a, I b) { return {_mm512_add_epi64(a.v, b.v)}; }
  FLYBALL_INLINE std::uint64_t reduce_u64(I a) {
    return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(a.v));
  }
};

}  // namespace
}  // namespace flyball::kernels::cpu
