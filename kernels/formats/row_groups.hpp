// clang-format off
// The layout that engines read weights in: a group of R rows interleaved, so that one vector of a processor,
// or neighbouring work-items of a GPU, hold the same four columns of neighbouring rows and a group is one
// sequential stream. R is the engine's choice, a multiple of 4 so that quads are aligned.
//
// Quad j of a step of 32 columns is columns 4j..4j+3, as 4 bytes a row. A group, field by field:
//   F32 F16 BF16  per column:      [R] values
//   blocks        per block:       what pack_block() of kernels/formats/<type>.cpp says
//   affine        per group:       [R] f32 scale | [R] f32 -bias | for each 32 of its columns:
//     2 bits      2 x [R] quads of bit pairs
//     3 bits      2 x [R] quads of lower bit pairs | [R] quads of third bits
//     4 bits      4 x [R] quads: 2i in the low nibbles, 2i+1 in the high ones
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
