// One row of the embedding table to f32. A step reads one row a token, so the scalar decoder serves every
// ISA.
#include "kernels/cpu/isa.hpp"
#include "kernels/formats/dequantize.hpp"

namespace flyball::kernels::cpu {

void embed(DType type, const SourceRows& row, std::uint32_t cols, float* out) noexcept {
  dequantize_row(type, row, cols, out);
}

}  // namespace flyball::kernels::cpu
