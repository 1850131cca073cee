// The layout matmul reads: a group of 2 * lanes rows interleaved, so that one vector holds the same four
// columns of `lanes` rows and a group is one sequential stream. ISA-neutral; lanes is the only thing an ISA
// chooses.
//
// Quad j of a step of 32 columns is columns 4j..4j+3, as 4 bytes a row. R = 2 * lanes rows a group:
//   F32 F16 BF16  per column:      [R] values
//   Q4_0          per 32 columns:  [R] f16 d | 4 x [R] quads: quad 2i in the low nibbles, 2i+1 in the high
//   ones Q8_0          per 32 columns:  [R] f16 d | 8 x [R] quads, signed Q4_K          per 256 columns: [R]
//   f16 d | [R] f16 dmin | 8 steps of: [R] u8 scale | [R] u8 min | 4 x [R] quads Q5_K          as Q4_K, with
//   [R] quads of fifth bits (bit j of a byte belongs to quad j) after the mins Q6_K          per 256 columns:
//   [R] f16 d | 8 steps of: [R] i8 scale of columns 0..15 | [R] i8 scale of 16..31 |
//                 2 x [R] quads of upper bit pairs (quads 0..3, 4..7; bits 2(j%4)..) | 4 x [R] quads
// Rows beyond the last are zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernels.hpp"

namespace flyball::kernels::cpu {

std::size_t packed_bytes_of(int lanes, DType type, std::uint32_t rows, std::uint32_t cols) noexcept;
// row_range begins at a multiple of 2 * lanes and ends at one or at rows.
void pack_rows(int lanes, DType type, std::uint32_t rows, std::uint32_t cols, const void* file, void* packed,
               Range row_range) noexcept;

}  // namespace flyball::kernels::cpu
