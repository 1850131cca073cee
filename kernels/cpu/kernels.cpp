#include "kernels/cpu/kernels.hpp"

#include <algorithm>
#include <array>

#include "kernels/cpu/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>  // what CPUID is elsewhere
#endif

namespace flyball::kernels::cpu {
namespace {

#if defined(__x86_64__)
struct CpuFeatures {
  bool avx2 = false;    // AVX2, FMA, F16C, and the system saves YMM registers
  bool avx512 = false;  // F, BW, VL, DQ, VNNI besides, and the system saves ZMM and mask registers
};

// XCR0: which register states the operating system saves. Intel SDM vol. 1, 13.3.
std::uint64_t saved_states() noexcept {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

CpuFeatures detect() noexcept {
  constexpr std::uint32_t kFma = 1U << 12, kOsXsave = 1U << 27, kF16c = 1U << 29;  // leaf 1, ECX
  constexpr std::uint32_t kAvx2 = 1U << 5;                                         // leaf 7, EBX
  constexpr std::uint32_t k512F = 1U << 16, k512Dq = 1U << 17, k512Bw = 1U << 30, k512Vl = 1U << 31;  // EBX
  constexpr std::uint32_t k512Vnni = 1U << 11;  // leaf 7, ECX
  constexpr std::uint64_t kYmm = 0x06, kZmm = 0xE6;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return {};
  constexpr std::uint32_t kLeaf1 = kFma | kOsXsave | kF16c;
  if ((c & kLeaf1) != kLeaf1) return {};
  const std::uint64_t saved = saved_states();
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return {};
  constexpr std::uint32_t k512 = k512F | k512Dq | k512Bw | k512Vl;
  CpuFeatures features;
  features.avx2 = (b & kAvx2) != 0 && (saved & kYmm) == kYmm;
  features.avx512 = features.avx2 && (b & k512) == k512 && (c & k512Vnni) != 0 && (saved & kZmm) == kZmm;
  return features;
}
#endif

Kernels assemble(Isa isa, void (*add_matmul)(Kernels&), void (*add_ops)(Kernels&)) noexcept {
  Kernels k{};
  k.isa = isa;
  k.embed = embed;
  k.moe_route = moe_route;
  add_matmul(k);
  add_ops(k);
  return k;
}

}  // namespace

const char* to_string(Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::neon:
      return "neon";
  }
  return "?";
}

std::span<const Isa> built_isas() noexcept {
#if defined(__x86_64__)
  static constexpr std::array kIsas{Isa::avx512, Isa::avx2, Isa::scalar};
#elif defined(__aarch64__)
  static constexpr std::array kIsas{Isa::neon, Isa::scalar};
#else
  static constexpr std::array kIsas{Isa::scalar};
#endif
  return kIsas;
}

bool supported(Isa isa) noexcept {
#if defined(__x86_64__)
  static const CpuFeatures features = detect();
  if (isa == Isa::avx2) return features.avx2;
  if (isa == Isa::avx512) return features.avx512;
#elif defined(__aarch64__)
  if (isa == Isa::neon) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
  return isa == Isa::scalar;
}

Isa best_isa() noexcept {
  return *std::ranges::find_if(built_isas(), supported);
}

const Kernels& kernels_for(Isa isa) noexcept {
  // Each table is assembled on first use: its code needs the instruction set.
#if defined(__x86_64__)
  if (isa == Isa::avx512) {
    static const Kernels avx512 = assemble(Isa::avx512, add_matmul_avx512, add_ops_avx512);
    return avx512;
  }
  if (isa == Isa::avx2) {
    static const Kernels avx2 = assemble(Isa::avx2, add_matmul_avx2, add_ops_avx2);
    return avx2;
  }
#elif defined(__aarch64__)
  if (isa == Isa::neon) {
    static const Kernels neon = assemble(Isa::neon, add_matmul_neon, add_ops_neon);
    return neon;
  }
#endif
  static const Kernels scalar = assemble(Isa::scalar, add_matmul_scalar, add_ops_scalar);
  return scalar;
}

}  // namespace flyball::kernels::cpu
