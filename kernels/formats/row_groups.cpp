#include "kernels/formats/row_groups.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/block_format.hpp"
#include "kernels/formats/row_writer.hpp"

namespace flyball::kernels {
namespace {

// Bytes of one block of one row in a group.
std::size_t grouped_block_bytes(DType type) noexcept {
  const FormatRow& f = row_of(type);
  if (f.kind == FormatKind::floats) return f.block.bytes;
  return f.head_bytes + f.block.values / FLYBALL_STEP_COLUMNS * f.step_bytes;
}

void pack_float_group(std::size_t size, const GroupShape& s, const std::uint8_t* file,
                      std::uint8_t* grouped) noexcept {
  for (std::size_t c = 0; c < s.row_blocks; ++c) {
    for (std::size_t r = 0; r < s.rows; ++r)
      RowWriter{grouped + c * s.block_bytes, s.group, r}.field(file + r * s.row_bytes + c * size, size);
  }
}

void pack_affine_step(std::uint32_t bits, std::uint8_t* q, RowWriter& w) noexcept {
  switch (bits) {
    case 2:
      w.pairs(q, 0);
      return;
    case 3:
      w.pairs(q, 0);
      w.single_bits(q, 2);
      return;
    case 4:
      w.nibbles(q);
      return;
    case 6:
      w.pairs(q, 4);
      w.nibbles(q);
      return;
    default:
      for (std::uint32_t i = 0; i < kAffineStep; ++i) q[i] ^= 0x80;  // less 128, as a signed byte
      w.bytes(q);
  }
}

void pack_affine_group(Affine type, DType dtype, std::size_t cols, const GroupShape& s,
                       const SourceRows& file, std::uint8_t* grouped) noexcept {
  for (std::size_t r = 0; r < s.rows; ++r) {
    const SourceRows row = file.after(dtype, r, cols);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row.data);
    for (std::size_t b = 0; b < s.row_blocks; ++b) {
      RowWriter w{grouped + b * s.block_bytes, s.group, r};
      const float scale = affine_scale(row.scale_type, row.scales, b);
      const float negated = -affine_scale(row.scale_type, row.biases, b);
      w.field(&scale, sizeof scale);
      w.field(&negated, sizeof negated);
      for (std::uint32_t c = 0; c < type.group; c += kAffineStep, codes += kAffineStep / 8 * type.bits) {
        std::uint8_t q[kAffineStep];
        affine_codes(type.bits, codes, q);
        pack_affine_step(type.bits, q, w);
      }
    }
  }
}

}  // namespace

std::size_t grouped_bytes(std::uint32_t group, DType type, std::uint32_t rows, std::uint32_t cols) noexcept {
  const std::size_t groups = (std::size_t{rows} + group - 1) / group;
  return groups * group * (cols / block_shape(type).values) * grouped_block_bytes(type);
}

void group_rows(std::uint32_t group, DType type, std::uint32_t rows, std::uint32_t cols,
                const SourceRows& file, void* grouped, std::uint32_t begin, std::uint32_t end) noexcept {
  GroupShape shape{.group = group,
                   .rows = group,
                   .row_bytes = row_bytes(type, cols),
                   .row_blocks = cols / block_shape(type).values,
                   .block_bytes = group * grouped_block_bytes(type)};
  const std::size_t group_bytes = shape.row_blocks * shape.block_bytes;
  for (std::size_t row = begin; row < std::min(end, rows); row += group) {
    const SourceRows rows_in = file.after(type, row, cols);
    const auto* in = reinterpret_cast<const std::uint8_t*>(rows_in.data);
    auto* out = static_cast<std::uint8_t*>(grouped) + row / group * group_bytes;
    shape.rows = std::min<std::size_t>(group, rows - row);
    if (shape.rows < group) std::memset(out, 0, group_bytes);
    switch (row_of(type).kind) {
      case FormatKind::floats:
        pack_float_group(block_shape(type).bytes, shape, in, out);
        break;
      case FormatKind::blocks:
        block_format_of(type).pack_group(shape, in, out);
        break;
      case FormatKind::affine:
        pack_affine_group(row_of(type).affine, type, cols, shape, rows_in, out);
        break;
    }
  }
}

}  // namespace flyball::kernels
