// One row of the embedding table to f32, scaled. A step reads one row a token, so the scalar decoder serves
// every ISA.
#include "kernels/cpu/isa.hpp"
#include "kernels/formats/dequantize.hpp"

namespace flyball::kernels::cpu {

void embed(DType type, const SourceRows& row, std::uint32_t cols, float scale, float* out) noexcept {
  dequantize_row(type, row, cols, out);
  for (std::uint32_t i = 0; i < cols; ++i) out[i] *= scale;
}

}  // namespace flyball::kernels::cpu
