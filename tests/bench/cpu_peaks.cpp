#include "tests/bench/cpu_peaks.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flyball::bench {
namespace {

using kernels::cpu::Isa;

constexpr int kChains = 12;
constexpr int kPeakRounds = 200'000;

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) double int8_operations_avx512() {
  __m512i sum[kChains] = {};
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (int i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) {
      sum[k] = _mm512_dpbusd_epi32(sum[k], a, b);
      __asm__ volatile("" : "+v"(sum[k]));
    }
  }
  return 2.0 * 64 * kChains * kPeakRounds;
}
__attribute__((target("avx512f"))) double f32_operations_avx512() {
  __m512 sum[kChains] = {};
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(0.25F);
  for (int i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) {
      sum[k] = _mm512_fmadd_ps(a, b, sum[k]);
      __asm__ volatile("" : "+v"(sum[k]));
    }
  }
  return 2.0 * 16 * kChains * kPeakRounds;
}
__attribute__((target("avx2"))) double int8_operations_avx2() {
  __m256i sum[kChains] = {};
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(5);
  for (int i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) {
      __asm__ volatile("" : "+x"(a));  // else the product is computed once
      sum[k] = _mm256_add_epi16(sum[k], _mm256_maddubs_epi16(a, b));
      __asm__ volatile("" : "+x"(sum[k]));
    }
  }
  return 2.0 * 32 * kChains * kPeakRounds;
}
__attribute__((target("avx2,fma"))) double f32_operations_avx2() {
  __m256 sum[kChains] = {};
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(0.25F);
  for (int i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) {
      sum[k] = _mm256_fmadd_ps(a, b, sum[k]);
      __asm__ volatile("" : "+x"(sum[k]));
    }
  }
  return 2.0 * 8 * kChains * kPeakRounds;
}
#endif

double scalar_operations() {
  float sum[kChains] = {};
  for (int i = 0; i < kPeakRounds; ++i) {
    for (float& s : sum) {
      s = s * 0.5F + 0.25F;
      __asm__ volatile("" : "+m"(s));
    }
  }
  return 2.0 * kChains * kPeakRounds;
}

}  // namespace

PeakLoops peak_loops(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return {int8_operations_avx512, f32_operations_avx512};
  if (isa == Isa::avx2) return {int8_operations_avx2, f32_operations_avx2};
#else
  (void)isa;
#endif
  return {scalar_operations, scalar_operations};
}

}  // namespace flyball::bench
