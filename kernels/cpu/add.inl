// x += y and x += scale * y. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>

namespace flyball::kernels::cpu {
namespace {

void add(float* x, const float* y, std::size_t n) {
  constexpr std::size_t kLanes = Simd::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store(x + i, Simd::add(Simd::load(x + i), Simd::load(y + i)));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_n(x + i, Simd::add(Simd::load_n(x + i, rest), Simd::load_n(y + i, rest)), rest);
  }
}

void add_scaled(float* x, const float* y, float scale, std::size_t n) {
  constexpr std::size_t kLanes = Simd::kLanes;
  const Simd::F factor = Simd::set1(scale);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(x + i, Simd::fma(factor, Simd::load(y + i), Simd::load(x + i)));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_n(x + i, Simd::fma(factor, Simd::load_n(y + i, rest), Simd::load_n(x + i, rest)), rest);
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
