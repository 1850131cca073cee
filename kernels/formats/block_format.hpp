// The scalar arithmetic on rows, in kernels/formats/<type>.cpp for each BLOCKS row of format_table.h. Such a
// file has a struct that lies as a block does in a file, and four functions of it:
//   struct Block { static constexpr DType kType = ...; ... };
//   void dequantize_block(const Block& block, float* out) noexcept;
//   void quantize_block(const float* in, Block& block) noexcept;
//   void pack_block(const Block& block, RowWriter to) noexcept;  // its share of a row group
//   const BlockFormat <type>_format = block_format<Block>();
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/formats/dtype.hpp"
#include "kernels/formats/row_writer.hpp"

namespace flyball::kernels {

struct BlockFormat {
  void (*dequantize_row)(const std::uint8_t* bytes, std::size_t cols, float* out) noexcept;
  void (*quantize_row)(const float* in, std::size_t cols, std::uint8_t* out) noexcept;
  void (*pack_group)(const GroupShape& shape, const std::uint8_t* file, std::uint8_t* grouped) noexcept;
};

#define FLYBALL_BLOCKS(type, ...) extern const BlockFormat type##_format;
FLYBALL_FORMATS(FLYBALL_NO_FLOATS, FLYBALL_BLOCKS, FLYBALL_NO_AFFINE)
#undef FLYBALL_BLOCKS

// Precondition: the type's kind is blocks.
inline const BlockFormat& block_format_of(DType type) noexcept {
  switch (type) {
#define FLYBALL_BLOCKS(type, ...) \
  case DType::type:               \
    return type##_format;
    FLYBALL_FORMATS(FLYBALL_NO_FLOATS, FLYBALL_BLOCKS, FLYBALL_NO_AFFINE)
#undef FLYBALL_BLOCKS
    default:
      __builtin_unreachable();
  }
}

// Blocks are copied out of a file and into it: rows of a mapped file have no useful alignment.
template <class Block>
void dequantize_blocks(const std::uint8_t* bytes, std::size_t cols, float* out) noexcept {
  for (std::size_t c = 0; c < cols; c += block_shape(Block::kType).values, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof(Block));
    dequantize_block(block, out + c);
  }
}

template <class Block>
void quantize_blocks(const float* in, std::size_t cols, std::uint8_t* out) noexcept {
  for (std::size_t c = 0; c < cols; c += block_shape(Block::kType).values, out += sizeof(Block)) {
    Block block;
    quantize_block(in + c, block);
    std::memcpy(out, &block, sizeof(Block));
  }
}

template <class Block>
void pack_blocks(const GroupShape& s, const std::uint8_t* file, std::uint8_t* grouped) noexcept {
  for (std::size_t b = 0; b < s.row_blocks; ++b) {
    for (std::size_t r = 0; r < s.rows; ++r) {
      Block block;
      std::memcpy(&block, file + r * s.row_bytes + b * sizeof(Block), sizeof(Block));
      pack_block(block, RowWriter{grouped + b * s.block_bytes, s.group, r});
    }
  }
}

template <class Block>
constexpr BlockFormat block_format() noexcept {
  static_assert(sizeof(Block) == block_shape(Block::kType).bytes);
  return {dequantize_blocks<Block>, quantize_blocks<Block>, pack_blocks<Block>};
}

}  // namespace flyball::kernels
