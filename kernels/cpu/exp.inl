// e^x by vector: 2^n * p(r) with x = n ln2 + r, |r| <= ln2/2; p the degree-7 Taylor polynomial, off by less
// than one part in 1e7. Below -87.3 the smallest normal number, above 88.0 about 1.7e38; NaN stays NaN.
// Included by the kernels that need it, after a simd_*.hpp.
#pragma once

namespace flyball::kernels::cpu {
namespace {

FLYBALL_INLINE Simd::F exp_of(Simd::F x) {
  // The constant first: max and min give their second operand where one is NaN.
  x = Simd::min(Simd::set1(88.0F), Simd::max(Simd::set1(-87.3F), x));
  const Simd::F n = Simd::round(Simd::mul(x, Simd::set1(1.44269504F)));
  Simd::F r = Simd::fnma(n, Simd::set1(0.693359375F), x);  // ln2 in two parts, the first exact in few bits
  r = Simd::fnma(n, Simd::set1(-2.12194440e-4F), r);
  Simd::F p = Simd::set1(1.0F / 5040.0F);
  p = Simd::fma(p, r, Simd::set1(1.0F / 720.0F));
  p = Simd::fma(p, r, Simd::set1(1.0F / 120.0F));
  p = Simd::fma(p, r, Simd::set1(1.0F / 24.0F));
  p = Simd::fma(p, r, Simd::set1(1.0F / 6.0F));
  p = Simd::fma(p, r, Simd::set1(0.5F));
  p = Simd::fma(p, r, Simd::set1(1.0F));
  p = Simd::fma(p, r, Simd::set1(1.0F));
  return Simd::mul(p, Simd::pow2(n));
}

}  // namespace
}  // namespace flyball::kernels::cpu
