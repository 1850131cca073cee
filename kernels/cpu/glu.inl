// out = activation(gate) * up [arXiv:2002.05202]. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>

#include "kernels/formats/activation.hpp"
// clang-format off
#include "kernels/cpu/exp.inl"
// clang-format on

namespace flyball::kernels::cpu {
namespace {

// What stands in the exponent: -x, or -2u of kernels/formats/activation.hpp.
template <Activation kActivation>
FLYBALL_INLINE Simd::F exponent(Simd::F x) {
  if constexpr (kActivation == Activation::silu) return Simd::sub(Simd::zero(), x);
  constexpr float kLinear = -1.5957691F, kCubic = kLinear * 0.044715F;  // 2 sqrt(2 / pi)
  return Simd::mul(x, Simd::fma(Simd::mul(x, x), Simd::set1(kCubic), Simd::set1(kLinear)));
}

template <Activation kActivation>
FLYBALL_INLINE Simd::F gated(Simd::F gate, Simd::F up) {
  const Simd::F one = Simd::set1(1.0F);
  return Simd::mul(Simd::div(gate, Simd::add(one, exp_of(exponent<kActivation>(gate)))), up);
}

template <Activation kActivation>
void glu_by(const float* gate, const float* up, std::size_t n, float* out) {
  constexpr std::size_t kLanes = Simd::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(out + i, gated<kActivation>(Simd::load(gate + i), Simd::load(up + i)));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_n(out + i, gated<kActivation>(Simd::load_n(gate + i, rest), Simd::load_n(up + i, rest)), rest);
  }
}

void glu(Activation activation, const float* gate, const float* up, std::size_t n, float* out) {
  if (activation == Activation::gelu) {
    glu_by<Activation::gelu>(gate, up, n, out);
  } else {
    glu_by<Activation::silu>(gate, up, n, out);
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
