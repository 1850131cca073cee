// f32 to f16, rounded to nearest even: exact, so every engine's result equals it bit for bit (NaN payloads
// aside).
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball::kernels::reference {

// out: [n] f16
void store_f16(const float* x, std::size_t n, std::uint16_t* out);

}  // namespace flyball::kernels::reference
