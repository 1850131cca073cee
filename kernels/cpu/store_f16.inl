// f32 to f16, rounding to nearest even. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>
#include <cstdint>

namespace flyball::kernels::cpu {
namespace {

void store_f16(const float* x, std::size_t n, std::uint16_t* out) {
  constexpr std::size_t kLanes = Simd::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store_f16(out + i, Simd::load(x + i));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_f16_n(out + i, Simd::load_n(x + i, rest), rest);
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
