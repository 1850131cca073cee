// RowWriter writes the share that one row of a row group (row_groups.hpp) has of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flyball::kernels {

// The fields of a block, in the order of the layout.
struct RowWriter {
  std::uint8_t* at;   // the field of row 0
  std::size_t group;  // rows interleaved
  std::size_t row;

  void field(const void* bytes, std::size_t size) noexcept {
    std::memcpy(at + row * size, bytes, size);
    at += group * size;
  }
  // q: [32] signed bytes
  void bytes(const void* q) noexcept {
    for (int j = 0; j < 8; ++j) field(static_cast<const std::uint8_t*>(q) + 4 * j, 4);
  }
  // q: [32] below 256; the low four bits of each
  void nibbles(const std::uint8_t* q) noexcept {
    for (int i = 0; i < 4; ++i, q += 8) {
      std::uint8_t quad[4];
      for (int k = 0; k < 4; ++k)
        quad[k] = static_cast<std::uint8_t>((q[k] & 0x0F) | ((q[k + 4] & 0x0F) << 4));
      field(quad, 4);
    }
  }
  // Bit `from` of each.
  void single_bits(const std::uint8_t* q, int from) noexcept {
    std::uint8_t quad[4] = {};
    for (int j = 0; j < 8; ++j) {
      for (int k = 0; k < 4; ++k)
        quad[k] = static_cast<std::uint8_t>(quad[k] | ((q[4 * j + k] >> from & 1) << j));
    }
    field(quad, 4);
  }
  // Bits `from` and `from` + 1 of each.
  void pairs(const std::uint8_t* q, int from) noexcept {
    for (int half = 0; half < 2; ++half) {
      std::uint8_t quad[4] = {};
      for (int j = 0; j < 4; ++j) {
        for (int k = 0; k < 4; ++k) {
          quad[k] = static_cast<std::uint8_t>(quad[k] | ((q[16 * half + 4 * j + k] >> from & 3) << (2 * j)));
        }
      }
      field(quad, 4);
    }
  }
};

// A group of rows of a matrix.
struct GroupShape {
  std::size_t group;        // rows interleaved
  std::size_t rows;         // of them present
  std::size_t row_bytes;    // in the file
  std::size_t row_blocks;   // a row
  std::size_t block_bytes;  // all rows of the group
};

}  // namespace flyball::kernels
