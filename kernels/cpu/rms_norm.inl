// out[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>
#include <cstdint>

namespace flyball::kernels::cpu {
namespace {

void rms_norm(const float* x, const float* weight, std::uint32_t n, std::uint32_t dim, float eps,
              float* out) {
  constexpr std::uint32_t kLanes = Simd::kLanes;
  for (std::uint32_t t = 0; t < n; ++t, x += dim, out += dim) {
    Simd::F sums[4] = {Simd::zero(), Simd::zero(), Simd::zero(), Simd::zero()};  // four: the latency of fma
    std::uint32_t i = 0;
    for (; i + 4 * kLanes <= dim; i += 4 * kLanes) {
      for (std::uint32_t k = 0; k < 4; ++k) {
        const Simd::F v = Simd::load(x + i + k * kLanes);
        sums[k] = Simd::fma(v, v, sums[k]);
      }
    }
    for (; i < dim; i += kLanes) {
      const Simd::F v =
          dim - i >= kLanes ? Simd::load(x + i) : Simd::load_n(x + i, static_cast<int>(dim - i));
      sums[0] = Simd::fma(v, v, sums[0]);
    }
    const float square =
        Simd::reduce_add(Simd::add(Simd::add(sums[0], sums[1]), Simd::add(sums[2], sums[3])));
    const Simd::F scale = Simd::set1(1.0F / __builtin_sqrtf(square / static_cast<float>(dim) + eps));
    for (i = 0; i + kLanes <= dim; i += kLanes) {
      Simd::store(out + i, Simd::mul(Simd::mul(Simd::load(x + i), scale), Simd::load(weight + i)));
    }
    if (i < dim) {
      const int rest = static_cast<int>(dim - i);
      Simd::store_n(out + i,
                    Simd::mul(Simd::mul(Simd::load_n(x + i, rest), scale), Simd::load_n(weight + i, rest)),
                    rest);
    }
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
