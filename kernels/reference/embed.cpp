#include "kernels/reference/embed.hpp"

#include <vector>

#include "kernels/formats/dequantize.hpp"

namespace flyball::kernels::reference {

void embed(DType type, const SourceRows& row, std::uint32_t cols, float scale, double* out) {
  std::vector<float> values(cols);
  dequantize_row(type, row, cols, values.data());
  for (std::uint32_t c = 0; c < cols; ++c) out[c] = static_cast<double>(values[c]) * scale;
}

}  // namespace flyball::kernels::reference
