// clang-format off
#include "kernels/cpu/simd_avx2.hpp"
#include "kernels/cpu/matmul.inl"
// clang-format on
#include "kernels/cpu/isa.hpp"

namespace flyball::kernels::cpu {

void add_matmul_avx2(Kernels& k) noexcept {
  add_matmul(k);
}

}  // namespace flyball::kernels::cpu
