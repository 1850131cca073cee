#include "kernels/reference/store_q8_0.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/formats/f16.hpp"
#include "kernels/formats/kv_page.hpp"

namespace flyball::kernels::reference {

void store_q8_0(const float* x, std::size_t n, std::int8_t* quants, std::uint16_t* scales) {
  for (std::size_t first = 0; first < n; first += kKvScaleValues) {
    float largest = 0;
    bool finite = true;
    for (std::size_t i = first; i < first + kKvScaleValues; ++i) {
      largest = std::max(largest, std::fabs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    const std::uint16_t stored = f32_to_f16(finite ? largest * (1.0F / 127.0F) : NAN);
    const float scale = f16_to_f32(stored);  // what is read back, so what the quants are of
    const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
    for (std::size_t i = first; i < first + kKvScaleValues; ++i) {
      const float q = finite ? std::nearbyint(x[i] * inverse) : 0.0F;
      quants[i] = static_cast<std::int8_t>(std::clamp(q, -127.0F, 127.0F));
    }
    scales[first / kKvScaleValues] = stored;
  }
}

}  // namespace flyball::kernels::reference
