// f32 to q8_0: an f16 scale for 32 values, which are rounded to nearest even on it. The scale is exact on
// every engine; a quant may differ by one where it lies halfway, on devices whose division is approximate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball::kernels::reference {

// n: a multiple of 32. quants: [n]; scales: [n / 32] f16. A value that is not finite makes its scale NaN, one
// beyond 127 * 65504 makes it infinite: neither can be read as a number.
void store_q8_0(const float* x, std::size_t n, std::int8_t* quants, std::uint16_t* scales);

}  // namespace flyball::kernels::reference
