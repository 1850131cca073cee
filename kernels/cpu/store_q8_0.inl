// f32 to q8_0: 32 values share an f16 scale, and are rounded to nearest even on what that reads back as.
// Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>
#include <cstdint>

#include "kernels/formats/kv_page.hpp"

namespace flyball::kernels::cpu {
namespace {

void store_q8_0(const float* x, std::size_t n, std::int8_t* quants, std::uint16_t* scales) {
  constexpr int kLanes = Simd::kLanes;
  constexpr int kVectors = static_cast<int>(kKvScaleValues) / kLanes;
  for (std::size_t first = 0; first < n; first += kKvScaleValues, ++scales) {
    Simd::F v[kVectors];
    Simd::F peak = Simd::zero();
    Simd::F bad = Simd::zero();  // NaN where a value is not finite: a maximum may drop it, a sum does not
    for (int i = 0; i < kVectors; ++i) {
      v[i] = Simd::load(x + first + i * kLanes);
      peak = Simd::max(peak, Simd::abs(v[i]));
      bad = Simd::fma(v[i], Simd::zero(), bad);
    }
    const float scale = Simd::reduce_max(peak) * (1.0F / 127.0F) + Simd::reduce_add(bad);
    Simd::store_f16_n(scales, Simd::set1(scale), 1);
    float stored[kLanes];
    Simd::store(stored, Simd::load_f16_n(scales, 1));
    const Simd::F inverse = Simd::set1(stored[0] > 0.0F ? 1.0F / stored[0] : 0.0F);
    for (int i = 0; i < kVectors; ++i) {
      // max gives its second operand where the first is NaN: every lane has an integer. 127 is store_i8's
      // own.
      const Simd::F q = Simd::max(Simd::mul(v[i], inverse), Simd::set1(-127.0F));
      Simd::store_i8(quants + first + i * kLanes, Simd::round_to_int(q));
    }
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
