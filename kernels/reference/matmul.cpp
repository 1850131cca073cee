#include "kernels/reference/matmul.hpp"

#include <vector>

#include "kernels/formats/dequantize.hpp"

namespace flyball::kernels::reference {

void matmul(DType type, const SourceRows& w, std::uint32_t rows, std::uint32_t cols, const float* x,
            std::uint32_t n_tokens, double* y) {
  std::vector<float> row(cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    dequantize_row(type, w.after(type, r, cols), cols, row.data());
    for (std::uint32_t t = 0; t < n_tokens; ++t) {
      double sum = 0;
      for (std::uint32_t c = 0; c < cols; ++c)
        sum += static_cast<double>(x[std::size_t{t} * cols + c]) * row[c];
      y[std::size_t{t} * rows + r] = sum;
    }
  }
}

}  // namespace flyball::kernels::reference
