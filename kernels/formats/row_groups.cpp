#include "kernels/formats/row_groups.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/block_layout.h"
#include "kernels/formats/q4_0.hpp"
#include "kernels/formats/q4_k.hpp"
#include "kernels/formats/q5_k.hpp"
#include "kernels/formats/q6_k.hpp"
#include "kernels/formats/q8_0.hpp"

namespace flyball::kernels {
namespace {

// Bytes of one block of one row in a group.
std::size_t grouped_block_bytes(DType type) noexcept {
#define FLYBALL_GROUPED(FORMAT)   \
  FLYBALL_##FORMAT##_HEAD_BYTES + \
      FLYBALL_##FORMAT##_VALUES / FLYBALL_STEP_COLUMNS* FLYBALL_##FORMAT##_STEP_BYTES
  switch (type) {
    case DType::f32:
      return 4;
    case DType::f16:
      return 2;
    case DType::bf16:
      return 2;
    case DType::q4_0:
      return FLYBALL_GROUPED(Q4_0);
    case DType::q8_0:
      return FLYBALL_GROUPED(Q8_0);
    case DType::q4_k:
      return FLYBALL_GROUPED(Q4_K);
    case DType::q5_k:
      return FLYBALL_GROUPED(Q5_K);
    case DType::q6_k:
      return FLYBALL_GROUPED(Q6_K);
    default:
      return FLYBALL_AFFINE_HEAD_BYTES + block_shape(type).bytes;  // affine
  }
#undef FLYBALL_GROUPED
}

// Where one row of a group of `group` rows writes its share of a grouped block, field by field in layout
// order.
struct RowWriter {
  std::uint8_t* at;  // field of row 0
  std::size_t group;
  std::size_t row;

  void field(const void* bytes, std::size_t size) noexcept {
    std::memcpy(at + row * size, bytes, size);
    at += group * size;
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

void pack_block(const BlockQ4_0& b, RowWriter w) noexcept {
  std::uint8_t q[32];
  quants(b, q);
  w.field(&b.d, 2);
  w.nibbles(q);
}

void pack_block(const BlockQ8_0& b, RowWriter w) noexcept {
  w.field(&b.d, 2);
  for (int j = 0; j < 8; ++j) w.field(b.qs + 4 * j, 4);
}

template <typename Block>  // Q4_K, Q5_K
void pack_with_minima(const Block& b, RowWriter w) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  w.field(&b.d, 2);
  w.field(&b.dmin, 2);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(b.scales, s);
    w.field(&sm.scale, 1);
    w.field(&sm.min, 1);
    if constexpr (sizeof(Block) == sizeof(BlockQ5_K)) w.single_bits(q + 32 * s, 4);
    w.nibbles(q + 32 * s);
  }
}

void pack_block(const BlockQ4_K& b, RowWriter w) noexcept {
  pack_with_minima(b, w);
}
void pack_block(const BlockQ5_K& b, RowWriter w) noexcept {
  pack_with_minima(b, w);
}

void pack_block(const BlockQ6_K& b, RowWriter w) noexcept {
  std::uint8_t q[256];
  quants(b, q);
  w.field(&b.d, 2);
  for (int s = 0; s < 8; ++s) {
    w.field(&b.scales[2 * s], 1);
    w.field(&b.scales[2 * s + 1], 1);
    w.pairs(q + 32 * s, 4);
    w.nibbles(q + 32 * s);
  }
}

struct Value32 {
  std::uint8_t bytes[4];
};
struct Value16 {
  std::uint8_t bytes[2];
};
void pack_block(const Value32& v, RowWriter w) noexcept {
  w.field(v.bytes, 4);
}
void pack_block(const Value16& v, RowWriter w) noexcept {
  w.field(v.bytes, 2);
}

struct GroupShape {
  std::size_t group;        // rows interleaved
  std::size_t rows;         // of them present
  std::size_t row_bytes;    // in the file
  std::size_t row_blocks;   // a row
  std::size_t block_bytes;  // all rows of the group
};

template <typename Block>
void pack_group(const GroupShape& s, const std::uint8_t* file, std::uint8_t* grouped) noexcept {
  for (std::size_t b = 0; b < s.row_blocks; ++b) {
    for (std::size_t r = 0; r < s.rows; ++r) {
      Block block;
      std::memcpy(&block, file + r * s.row_bytes + b * sizeof(Block), sizeof(Block));
      pack_block(block, RowWriter{grouped + b * s.block_bytes, s.group, r});
    }
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
      for (int j = 0; j < 8; ++j) w.field(q + 4 * j, 4);
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
    if (const auto affine = affine_of(type)) {
      pack_affine_group(*affine, type, cols, shape, rows_in, out);
      continue;
    }
    switch (type) {
      case DType::f32:
        pack_group<Value32>(shape, in, out);
        break;
      case DType::f16:
        pack_group<Value16>(shape, in, out);
        break;
      case DType::bf16:
        pack_group<Value16>(shape, in, out);
        break;
      case DType::q4_0:
        pack_group<BlockQ4_0>(shape, in, out);
        break;
      case DType::q8_0:
        pack_group<BlockQ8_0>(shape, in, out);
        break;
      case DType::q4_k:
        pack_group<BlockQ4_K>(shape, in, out);
        break;
      case DType::q5_k:
        pack_group<BlockQ5_K>(shape, in, out);
        break;
      case DType::q6_k:
        pack_group<BlockQ6_K>(shape, in, out);
        break;
      default:
        break;  // affine, above
    }
  }
}

}  // namespace flyball::kernels
