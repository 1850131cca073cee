#include "kernels/reference/store_f16.hpp"

#include "kernels/formats/f16.hpp"

namespace flyball::kernels::reference {

void store_f16(const float* x, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = f32_to_f16(x[i]);
}

}  // namespace flyball::kernels::reference
