// cap * tanh(x / cap) by vector, as tanh(x) = 1 - 2 / (e^2x + 1): off by at most cap / 4e6, which beside a
// cap of tens is what scores and logits are rounded by. Included after a simd_*.hpp.
#pragma once

// clang-format off
#include "kernels/cpu/exp.inl"
// clang-format on

namespace flyball::kernels::cpu {
namespace {

FLYBALL_INLINE Simd::F capped(Simd::F x, float cap) {
  const Simd::F one = Simd::set1(1.0F);
  const Simd::F e = exp_of(Simd::mul(x, Simd::set1(2.0F / cap)));
  const Simd::F tanh = Simd::sub(one, Simd::div(Simd::set1(2.0F), Simd::add(e, one)));
  return Simd::mul(Simd::set1(cap), tanh);
}

}  // namespace
}  // namespace flyball::kernels::cpu
