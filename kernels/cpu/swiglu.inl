// out = silu(gate) * up, silu(x) = x / (1 + e^-x) [arXiv:2002.05202]. Included by ops_<isa>.cpp.
#include <cstddef>

// clang-format off
#include "kernels/cpu/exp.inl"
// clang-format on

namespace flyball::kernels::cpu {
namespace {

FLYBALL_INLINE Simd::F silu_times(Simd::F gate, Simd::F up) {
  const Simd::F one = Simd::set1(1.0F);
  return Simd::mul(Simd::div(gate, Simd::add(one, exp_of(Simd::sub(Simd::zero(), gate)))), up);
}

void swiglu(const float* gate, const float* up, std::size_t n, float* out) {
  constexpr std::size_t kLanes = Simd::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Simd::store(out + i, silu_times(Simd::load(gate + i), Simd::load(up + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_n(out + i, silu_times(Simd::load_n(gate + i, rest), Simd::load_n(up + i, rest)), rest);
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
