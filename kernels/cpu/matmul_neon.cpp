// clang-format off
#include "kernels/cpu/simd_neon.hpp"
#include "kernels/cpu/matmul.inl"
// clang-format on
#include "kernels/cpu/isa.hpp"

namespace flyball::kernels::cpu {

void add_matmul_neon(Kernels& k) noexcept {
  add_matmul(k);
}

}  // namespace flyball::kernels::cpu
