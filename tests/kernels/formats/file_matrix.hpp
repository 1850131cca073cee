// A matrix as a file has it, quantized from given values: one run of bytes, or three where the type is
// affine.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/quantize.hpp"
#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels::test {

struct FileMatrix {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> scales, biases;  // of affine types, in scale_type
  DType scale_type = DType::f16;

  FileMatrix() = default;
  // values: [rows, cols]
  FileMatrix(DType type, std::uint32_t rows, std::uint32_t cols, const std::vector<float>& values,
             DType scales_as = DType::f16)
      : bytes(rows * row_bytes(type, cols)), scale_type(scales_as) {
    const auto affine = affine_of(type);
    std::vector<std::uint16_t> s(affine ? cols / affine->group : 0), b(s.size());
    for (std::size_t r = 0; r < rows; ++r) {
      quantize_row(type, values.data() + r * cols, cols, bytes.data() + r * row_bytes(type, cols), s.data(),
                   b.data());
      append(s, scales);
      append(b, biases);
    }
  }
  // The rows of another one below its own.
  void append(const FileMatrix& more) {
    bytes.insert(bytes.end(), more.bytes.begin(), more.bytes.end());
    scales.insert(scales.end(), more.scales.begin(), more.scales.end());
    biases.insert(biases.end(), more.biases.begin(), more.biases.end());
    scale_type = more.scale_type;
  }
  SourceRows rows() const { return {bytes.data(), scales.data(), biases.data(), scale_type}; }

 private:
  void append(const std::vector<std::uint16_t>& halves, std::vector<std::uint8_t>& to) const {
    for (const std::uint16_t half : halves) {
      // Of as many bits as the type has: f16 would leave those of f32 zero.
      const float value = f16_to_f32(half) * (scale_type == DType::f16 ? 1.0F : 1.000123F);
      const std::size_t at = to.size(), size = block_shape(scale_type).bytes;
      to.resize(at + size);
      quantize_row(scale_type, &value, 1, to.data() + at);
    }
  }
};

}  // namespace flyball::kernels::test
