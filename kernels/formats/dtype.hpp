// The element types a weight or KV tensor may have, and what a block of each is: how many values, how many
// bytes. The rows stand in format_table.h; what the bytes mean stands in kernels/formats/<type>.cpp, scalar,
// once. Layouts: ggml's GGUF block formats, and MLX's affine groups (affine.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/formats/format_table.h"

namespace flyball::kernels {

enum class DType : std::uint8_t {
#define FLYBALL_ENUMERATOR(type, ...) type,
  FLYBALL_FORMATS(FLYBALL_ENUMERATOR, FLYBALL_ENUMERATOR, FLYBALL_ENUMERATOR)
#undef FLYBALL_ENUMERATOR
};

// floats: a value is a block. blocks: GGUF's quantized ones. affine: MLX's, whose scales and biases stand
// apart from the codes.
enum class FormatKind : std::uint8_t { floats, blocks, affine };

// Each group of values along a row of an affine type has a scale and a bias.
struct Affine {
  std::uint32_t bits, group;
};

struct BlockShape {
  std::uint32_t values;  // values per block, along a row
  std::uint32_t bytes;   // bytes per block; of affine types the codes alone
};

// A row of format_table.h.
struct FormatRow {
  static constexpr std::uint32_t kNoGguf = ~0U;
  FormatKind kind;
  std::string_view name;  // GGUF's spelling: "F32", "Q4_0", "Q4_K"; ours of the affine types: "AFFINE4_G64"
  std::uint32_t gguf_type, file_type;  // ggml's numbers; kNoGguf: GGUF has no such type
  BlockShape block;
  std::uint32_t head_bytes, step_bytes;  // of a row in row groups; of floats none
  Affine affine;                         // of affine types
  bool texel;
};

inline constexpr FormatRow kFormatRows[] = {
#define FLYBALL_FLOATS(type, NAME, gguf, file, bytes, texel) \
  {FormatKind::floats, #NAME, gguf, file, {1, bytes}, 0, 0, {}, texel != 0},
#define FLYBALL_BLOCKS(type, NAME, gguf, file, values, bytes, head, step, texel) \
  {FormatKind::blocks, #NAME, gguf, file, {values, bytes}, head, step, {}, texel != 0},
#define FLYBALL_AFFINE(type, NAME, bits, group) \
  {FormatKind::affine,                          \
   #NAME,                                       \
   FormatRow::kNoGguf,                          \
   FormatRow::kNoGguf,                          \
   {group, group * bits / 8},                   \
   FLYBALL_AFFINE_HEAD_BYTES,                   \
   FLYBALL_AFFINE_STEP_BYTES(bits),             \
   {bits, group},                               \
   false},
    FLYBALL_FORMATS(FLYBALL_FLOATS, FLYBALL_BLOCKS, FLYBALL_AFFINE)
#undef FLYBALL_FLOATS
#undef FLYBALL_BLOCKS
#undef FLYBALL_AFFINE
};
inline constexpr std::size_t kDTypeCount = std::size(kFormatRows);

constexpr const FormatRow& row_of(DType t) noexcept {
  return kFormatRows[static_cast<std::size_t>(t)];
}

namespace detail {
constexpr std::size_t count_affine() noexcept {
  std::size_t n = 0;
  for (const FormatRow& f : kFormatRows) n += f.kind == FormatKind::affine ? 1 : 0;
  return n;
}
template <std::size_t kCount>
constexpr std::array<DType, kCount> select(bool affine) noexcept {
  std::array<DType, kCount> out{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if ((kFormatRows[i].kind == FormatKind::affine) == affine) out[n++] = static_cast<DType>(i);
  return out;
}
}  // namespace detail
// Those of GGUF files.
inline constexpr auto kAllDTypes = detail::select<kDTypeCount - detail::count_affine()>(false);
// Those of MLX directories.
inline constexpr auto kAffineDTypes = detail::select<detail::count_affine()>(true);

constexpr std::optional<Affine> affine_of(DType t) noexcept {
  if (row_of(t).kind != FormatKind::affine) return std::nullopt;
  return row_of(t).affine;
}

constexpr BlockShape block_shape(DType t) noexcept {
  return row_of(t).block;
}

// Bytes of one row of `cols` values. Precondition: cols is a multiple of block_shape(t).values.
constexpr std::size_t row_bytes(DType t, std::size_t cols) noexcept {
  const auto b = block_shape(t);
  return cols / b.values * b.bytes;
}

constexpr std::string_view to_string(DType t) noexcept {
  return row_of(t).name;
}

constexpr std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if (kFormatRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

// The type that GGUF files give this number. Nothing: this build cannot read it.
constexpr std::optional<DType> dtype_of_gguf(std::uint32_t gguf_type) noexcept {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if (kFormatRows[i].gguf_type == gguf_type && gguf_type != FormatRow::kNoGguf)
      return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace flyball::kernels
