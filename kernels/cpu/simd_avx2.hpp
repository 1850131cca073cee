// Eight lanes of AVX2 + FMA + F16C under the names the *.inl kernels are written in.
// Anonymous namespace, always inlined: nothing compiled with these flags may be shared with other files.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace flyball::kernels::cpu {
namespace {

#define FLYBALL_INLINE [[gnu::always_inline]] static inline

struct Simd {
  static constexpr int kLanes = 8;
  // A few sums spill, which costs less than loading and unfolding the weights for every two tokens.
  static constexpr int kIntTileTokens = 4;
  static constexpr int kFloatTileTokens = 6;  // 12 sums, 2 weights, 1 activation
  static constexpr int kAttendHeads = 4;
  static constexpr int kAttendVectors = 2;

  struct F {
    __m256 v;
  };
  struct I {
    __m256i v;
  };
  struct Half {  // int16 sums of pairs
    __m256i v;
  };

  FLYBALL_INLINE __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  // ---- f32 ------------------------------------------------------------------------------------------------
  FLYBALL_INLINE F zero() { return {_mm256_setzero_ps()}; }
  FLYBALL_INLINE F set1(float x) { return {_mm256_set1_ps(x)}; }
  FLYBALL_INLINE F load(const float* p) { return {_mm256_loadu_ps(p)}; }
  FLYBALL_INLINE F load_n(const float* p, int n) { return {_mm256_maskload_ps(p, first(n))}; }
  FLYBALL_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x.v); }
  FLYBALL_INLINE void store_n(float* p, F x, int n) { _mm256_maskstore_ps(p, first(n), x.v); }
  FLYBALL_INLINE F add(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
  FLYBALL_INLINE F sub(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
  FLYBALL_INLINE F mul(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
  FLYBALL_INLINE F div(F a, F b) { return {_mm256_div_ps(a.v, b.v)}; }
  FLYBALL_INLINE F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  FLYBALL_INLINE F fnma(F a, F b, F c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
  FLYBALL_INLINE F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }  // b where either is NaN
  FLYBALL_INLINE F min(F a, F b) { return {_mm256_min_ps(a.v, b.v)}; }
  FLYBALL_INLINE F abs(F a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.v)}; }
  FLYBALL_INLINE F round(F a) {
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  FLYBALL_INLINE F pow2(F n) {  // n integral, -126..127
    return {_mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23))};
  }
  FLYBALL_INLINE float reduce_add(F a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  FLYBALL_INLINE float reduce_max(F a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
  // Lane i of the result is the sum of the lanes of x[i].
  FLYBALL_INLINE F reduce_lanes(const F (&x)[8]) {
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(x[0].v, x[1].v), _mm256_hadd_ps(x[2].v, x[3].v));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(x[4].v, x[5].v), _mm256_hadd_ps(x[6].v, x[7].v));
    return {_mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31))};
  }

  // ---- conversions ----------------------------------------------------------------------------------------
  FLYBALL_INLINE F load_f16(const void* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  FLYBALL_INLINE F load_f16_n(const void* p, int n) {
    std::uint16_t h[8] = {};
    std::memcpy(h, p, static_cast<std::size_t>(n) * 2);
    return load_f16(h);
  }
  FLYBALL_INLINE F load_bf16(const void* p) {
    const __m128i h = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16))};
  }
  FLYBALL_INLINE F load_u8(const void* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))))};
  }
  FLYBALL_INLINE F load_i8(const void* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))))};
  }
  FLYBALL_INLINE void store_f16(std::uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  FLYBALL_INLINE void store_f16_n(std::uint16_t* p, F x, int n) {
    std::uint16_t h[8];
    store_f16(h, x);
    std::memcpy(p, h, static_cast<std::size_t>(n) * 2);
  }
  FLYBALL_INLINE I round_to_int(F x) { return {_mm256_cvtps_epi32(x.v)}; }
  FLYBALL_INLINE F to_f32(I x) { return {_mm256_cvtepi32_ps(x.v)}; }
  FLYBALL_INLINE void store_i8(std::int8_t* p, I x) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x.v), _mm256_extracti128_si256(x.v, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  FLYBALL_INLINE int reduce_add(I a) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
  }

  // ---- int8 dot products: each lane a row, four columns ("a quad") at a time ------------------------------
  static constexpr int kSignedOffset = 0;  // dot_signed moves the weight's sign to the activation instead
  // A Half sums pairs of products of at most max_quant * 127 without reaching 2^15.
  static constexpr int quads_per_half(int max_quant) {
    return max_quant <= 15 ? 8 : max_quant <= 31 ? 4 : max_quant <= 63 ? 2 : 1;
  }
  FLYBALL_INLINE I set1_i32(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
  FLYBALL_INLINE I load_quads(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
  FLYBALL_INLINE I broadcast_quad(const void* p) {
    std::int32_t quad;
    std::memcpy(&quad, p, sizeof(quad));
    return {_mm256_set1_epi32(quad)};
  }
  FLYBALL_INLINE I low_nibbles(I x) { return {_mm256_and_si256(x.v, _mm256_set1_epi8(0x0F))}; }
  FLYBALL_INLINE I high_nibbles(I x) {
    return {_mm256_and_si256(_mm256_srli_epi16(x.v, 4), _mm256_set1_epi8(0x0F))};
  }
  // low | (x shifted left by kLeft, right if negative) & mask, per byte
  template <int kLeft>
  FLYBALL_INLINE I or_shifted(I low, I x, std::uint8_t mask) {
    __m256i shifted = x.v;
    if constexpr (kLeft > 0) shifted = _mm256_slli_epi16(x.v, kLeft);
    if constexpr (kLeft < 0) shifted = _mm256_srli_epi16(x.v, -kLeft);
    return {_mm256_or_si256(low.v, _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(mask))))};
  }
  // Sixteen bytes for lookup(): byte n of the table for each byte n below 16.
  FLYBALL_INLINE I load_table(const std::int8_t (&bytes)[16]) {
    return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)))};
  }
  FLYBALL_INLINE I lookup(I table, I n) { return {_mm256_shuffle_epi8(table.v, n.v)}; }
  FLYBALL_INLINE I from_signed(I x) { return x; }
  FLYBALL_INLINE Half begin(I /*total*/) { return {_mm256_setzero_si256()}; }
  FLYBALL_INLINE Half dot(Half sum, I w, I a) {
    return {_mm256_add_epi16(sum.v, _mm256_maddubs_epi16(w.v, a.v))};
  }
  FLYBALL_INLINE Half dot_signed(Half sum, I w, I a) {
    return dot(sum, {_mm256_abs_epi8(w.v)}, {_mm256_sign_epi8(a.v, w.v)});
  }
  FLYBALL_INLINE I end(I total, Half sum) {
    return {_mm256_add_epi32(total.v, _mm256_madd_epi16(sum.v, _mm256_set1_epi16(1)))};
  }

  FLYBALL_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
  FLYBALL_INLINE I add_u64(I a, I b) { return {_mm256_add_epi64(a.v, b.v)}; }
  FLYBALL_INLINE std::uint64_t reduce_u64(I a) {
    const __m128i t = _mm_add_epi64(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(t)) +
           static_cast<std::uint64_t>(_mm_extract_epi64(t, 1));
  }
};

}  // namespace
}  // namespace flyball::kernels::cpu
