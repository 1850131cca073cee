// x = cap * tanh(x / cap). Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>

// clang-format off
#include "kernels/cpu/cap.inl"
// clang-format on

namespace flyball::kernels::cpu {
namespace {

void softcap(float* x, std::size_t n, float cap) {
  constexpr std::size_t kLanes = Simd::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store(x + i, capped(Simd::load(x + i), cap));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_n(x + i, capped(Simd::load_n(x + i, rest), cap), rest);
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
