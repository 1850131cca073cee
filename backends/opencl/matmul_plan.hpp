// clang-format off
// Which kernel multiplies, how it is compiled and over which grid: a pure function of the device, the format
// and the shape. Weights lie in row groups of kGroupRows (kernels/formats/row_groups.hpp) and activations are
// f32.
//
// Arguments of the kernels, in order:
//   matvec, matmul_panel, matmul_tile:  x, uint n, uint cols, then per matrix: w, y, uint rows. Three matrices
//                                       always; those left out repeat the first one's buffers with rows 0.
//   moe_matvec:                         x, uint per_row, uint cols, w, ulong expert_bytes, experts, y, uint rows
//   moe_matmul_panel, moe_matmul_tile:  x, uint per_row, uint cols, w, ulong expert_bytes, offsets, order, y,
//                                       uint rows
//   moe_group:                          experts, uint pairs, uint n_experts, offsets, order
// clang-format on
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/formats/dtype.hpp"

namespace flyball::opencl {

inline constexpr std::uint32_t kGroupRows = 32;
inline constexpr std::uint32_t kMostMatvecTokens = 8;
inline constexpr std::uint32_t kMoeGroupItems = 64;
inline constexpr std::size_t kMaxMatrices = 3;  // that one dispatch multiplies the same x with

struct MatmulDevice {
  bool processor = false;            // runs on a processor's cores: explicit vectors, work-groups of one
  std::uint32_t vector_floats = 1;   // CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT
  std::uint32_t max_work_group = 1;  // work-items
  std::uint64_t local_bytes = 0;
};

// The parameters that tuning searches. Names are those of the kernels' macros.
struct MatmulTuning {
  std::uint32_t max_matvec_tokens = 8;  // of a work-group of matvec. 1, 2, 4 or 8
  std::uint32_t vector = 1;             // 1, 2, 4, 8 or 16 rows
  struct Matvec {
    std::uint32_t vectors = 1, lanes = 8, slices = 16;
  } matvec;
  struct Panel {
    std::uint32_t vectors = 2, tokens = 8, steps = 4, chunk = 128;
  } panel;
  struct Tile {
    std::uint32_t rows = 64, tokens = 64, item_rows = 4, item_tokens = 4;
  } tile;
};

// Local memory of a tile's work-group: its weights, and its tokens' columns with a quad between them.
constexpr std::uint64_t tile_bytes(const MatmulTuning::Tile& tile) noexcept {
  return 4ULL * (FLYBALL_STEP_COLUMNS * tile.rows + (FLYBALL_STEP_COLUMNS + 4ULL) * tile.tokens);
}

// The compiler's options by which kernels/opencl/weights.cl reads that type.
std::string format_options(kernels::DType type);

// What this tree ships for a device nobody has tuned.
MatmulTuning default_tuning(const MatmulDevice& device) noexcept;

// What to try where a GPU does not build a tile, or a matvec, of this tuning: about half the work-items, with no
// more sums each, and less local memory. nullopt: nothing asks for less.
std::optional<MatmulTuning> smaller_tile(MatmulTuning tuning) noexcept;
std::optional<MatmulTuning> smaller_matvec(MatmulTuning tuning) noexcept;

struct MatmulPlan {
  std::vector<std::string_view> files;  // kernel sources, one after the other
  std::string_view kernel;
  std::string options;
  std::array<std::size_t, 2> global{1, 1}, local{1, 1};
};

// y = x * w, or y += where `add`. rows: of 1 to kMaxMatrices matrices of one type. tokens > 0.
MatmulPlan plan_matmul(const MatmulDevice& device, const MatmulTuning& tuning, kernels::DType type,
                       std::span<const std::uint32_t> rows, std::uint32_t tokens, bool add);

// Counts of tokens that between them meet every kernel that plan_matmul chooses for 1 to `most`, whatever the
// tunings.
std::vector<std::uint32_t> token_classes(std::uint32_t most);

// The same of `pairs` (row, expert), each with its expert's matrix. grouped: the plan wants offsets and order
// from moe_group, not the experts' ids.
struct ExpertPlan {
  MatmulPlan matmul;
  bool grouped = false;
};
bool experts_are_grouped(std::uint32_t pairs, std::uint32_t n_experts) noexcept;
ExpertPlan plan_expert_matmul(const MatmulDevice& device, const MatmulTuning& tuning, kernels::DType type,
                              std::uint32_t rows, std::uint32_t pairs, std::uint32_t n_experts);
// Likewise, of pairs.
std::vector<std::uint32_t> pair_classes(std::uint32_t most, std::uint32_t n_experts);
MatmulPlan plan_moe_group(const MatmulDevice& device);

}  // namespace flyball::opencl
