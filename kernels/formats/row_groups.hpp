// clang-format off
// The layout that engines read weights in: a group of R rows interleaved, so that one vector of a processor,
// or neighbouring work-items of a GPU, hold the same four columns of neighbouring rows and a group is one
// sequential stream. R is the engine's choice, a multiple of 4 so that quads are aligned.
//
// Quad j of a step of 32 columns is columns 4j..4j+3, as 4 bytes a row. A group, field by field:
//   F32 F16 BF16  per column:      [R] values
//   Q4_0          per 32 columns:  [R] f16 d | 4 x [R] quads: 2i in the low nibbles, 2i+1 in the high ones
//   Q8_0          per 32 columns:  [R] f16 d | 8 x [R] quads, signed
//   Q4_K          per 256 columns: [R] f16 d | [R] f16 dmin | 8 steps of:
//                 [R] u8 scale | [R] u8 min | 4 x [R] quads
//   Q5_K          as Q4_K, with [R] quads of fifth bits (bit j of a byte belongs to quad j) after the mins
//   Q6_K          per 256 columns: [R] f16 d | 8 steps of:
//                 [R] i8 scale of columns 0..15 | [R] i8 scale of 16..31 |
//                 2 x [R] quads of upper bit pairs (quads 0..3, 4..7; bits 2(j%4)..) | 4 x [R] quads
//   affine        per group:       [R] f32 scale | [R] f32 -bias | for each 32 of its columns:
//     2 bits      2 x [R] quads of bit pairs
//     3 bits      2 x [R] quads of lower bit pairs | [R] quads of third bits
//     4 bits      4 x [R] quads as Q4_0's
//     6 bits      2 x [R] quads of upper bit pairs | 4 x [R] quads
//     8 bits      8 x [R] quads, signed: code - 128
// Rows beyond the last are zeros.
// clang-format on
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.hpp"
#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels {

// Bytes of [rows, cols] in groups of `group` rows.
std::size_t grouped_bytes(std::uint32_t group, DType type, std::uint32_t rows, std::uint32_t cols) noexcept;

// Rows [begin, end) of the file's matrix into their place in `grouped`. begin is a multiple of `group`, end
// is one or `rows`.
void group_rows(std::uint32_t group, DType type, std::uint32_t rows, std::uint32_t cols,
                const SourceRows& file, void* grouped, std::uint32_t begin, std::uint32_t end) noexcept;

}  // namespace flyball::kernels
