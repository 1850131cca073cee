// clang-format off
#include "kernels/cpu/simd_scalar.hpp"
#include "kernels/cpu/rms_norm.inl"
#include "kernels/cpu/rope.inl"
#include "kernels/cpu/glu.inl"
#include "kernels/cpu/softcap.inl"
#include "kernels/cpu/add.inl"
#include "kernels/cpu/store_f16.inl"
#include "kernels/cpu/store_q8_0.inl"
#include "kernels/cpu/attend.inl"
#include "kernels/cpu/read_sum.inl"
// clang-format on
#include "kernels/cpu/isa.hpp"

namespace flyball::kernels::cpu {

void add_ops_scalar(Kernels& k) noexcept {
  k.rms_norm = rms_norm;
  k.rope = rope;
  k.glu = glu;
  k.softcap = softcap;
  k.add = add;
  k.add_scaled = add_scaled;
  k.store_f16 = store_f16;
  k.store_q8_0 = store_q8_0;
  k.attend = attend;
  k.read_sum = read_sum;
}

}  // namespace flyball::kernels::cpu
