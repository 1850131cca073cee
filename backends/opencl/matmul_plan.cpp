#include "backends/opencl/matmul_plan.hpp"

#include <algorithm>
#include <bit>

#include "kernels/formats/format_table.h"

namespace flyball::opencl {
namespace {

// While experts are met by a pair or two, reading them pair by pair costs little and needs no grouping.
constexpr std::uint32_t kUngroupedPairs = 2;
// Tokens that a GPU takes eight at a time, side by side: a tile of so few leaves most of a device without
// work.
constexpr std::uint32_t kSomeTokens = 32;

class Options {
 public:
  explicit Options(std::string text = "") : text_(std::move(text)) {}
  Options& define(std::string_view name, std::uint32_t value) {
    if (!text_.empty()) text_ += ' ';
    text_.append("-D ").append(name).append("=").append(std::to_string(value));
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

Options common(kernels::DType type, bool add) {
  Options options(format_options(type));
  options.define("GROUP_ROWS", kGroupRows).define("ADD", add);
  return options;
}

std::size_t parts(std::span<const std::uint32_t> rows, std::uint32_t rows_each) {
  std::size_t n = 0;
  for (const std::uint32_t r : rows) n += (r + rows_each - 1) / rows_each;
  return n;
}

constexpr std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

// Rows are divided among dim 0's work-groups, `second` is dim 1's count of work-groups.
MatmulPlan matvec(const MatmulTuning& tuning, std::string_view kernel, kernels::DType type,
                  std::span<const std::uint32_t> rows, std::uint32_t tokens, std::size_t second, bool add) {
  const auto& m = tuning.matvec;
  // Sums and parts of 8 tokens and 2 vectors would not fit the registers.
  const std::uint32_t vectors = tokens > 4 ? 1 : m.vectors;
  MatmulPlan plan;
  plan.files = {"format_table", "weights", "matvec"};
  plan.kernel = kernel;
  plan.options = common(type, add)
                     .define("VECTOR", tuning.vector)
                     .define("VECTORS", vectors)
                     .define("LANES", m.lanes)
                     .define("SLICES", m.slices)
                     .define("TOKENS", tokens)
                     .take();
  plan.local = {std::size_t{m.lanes} * m.slices, 1};
  plan.global = {parts(rows, m.lanes * tuning.vector * vectors) * plan.local[0], second};
  return plan;
}

// tokens: all of them, 0 where a work-group finds them itself (experts).
MatmulPlan panel(const MatmulTuning& tuning, std::string_view kernel, kernels::DType type,
                 std::span<const std::uint32_t> rows, std::uint32_t tokens, std::size_t second, bool add) {
  const auto& p = tuning.panel;
  MatmulPlan plan;
  plan.files = {"format_table", "weights", "matmul_panel"};
  plan.kernel = kernel;
  plan.options = common(type, add)
                     .define("VECTOR", tuning.vector)
                     .define("VECTORS", p.vectors)
                     .define("TOKENS", p.tokens)
                     .define("PANEL_STEPS", p.steps)
                     .define("CHUNK", p.chunk)
                     .take();
  plan.global = {parts(rows, tuning.vector * p.vectors), tokens > 0 ? divide_up(tokens, p.chunk) : second};
  return plan;
}

MatmulPlan tile(const MatmulTuning& tuning, std::string_view kernel, kernels::DType type,
                std::span<const std::uint32_t> rows, std::uint32_t tokens, std::size_t second, bool add) {
  const auto& t = tuning.tile;
  MatmulPlan plan;
  plan.files = {"format_table", "weights", "matmul_tile"};
  plan.kernel = kernel;
  plan.options = common(type, add)
                     .define("TILE_ROWS", t.rows)
                     .define("TILE_TOKENS", t.tokens)
                     .define("ITEM_ROWS", t.item_rows)
                     .define("ITEM_TOKENS", t.item_tokens)
                     .take();
  plan.local = {std::size_t{t.rows / t.item_rows} * (t.tokens / t.item_tokens), 1};
  plan.global = {parts(rows, t.rows) * plan.local[0], tokens > 0 ? divide_up(tokens, t.tokens) : second};
  return plan;
}

}  // namespace

std::string format_options(kernels::DType type) {
  if (const auto affine = kernels::affine_of(type))
    return "-D FORMAT_AFFINE=1 -D BITS=" + std::to_string(affine->bits) +
           " -D GROUP=" + std::to_string(affine->group);
  return "-D FORMAT_" + std::string(to_string(type)) + "=1";
}

MatmulTuning default_tuning(const MatmulDevice& device) noexcept {
  MatmulTuning tuning;
  if (device.processor) {
    // Explicit vectors; a register's worth of rows twice, for enough independent chains of fma.
    tuning.vector = std::clamp(std::bit_floor(device.vector_floats), 4U, 16U);
    tuning.matvec = {.vectors = 2, .lanes = 1, .slices = 1};
    return tuning;
  }
  // Eight rows of quads are the 32 bytes that GPUs fetch at least; slices fill the work-group.
  auto& matvec = tuning.matvec;
  while (matvec.lanes * matvec.slices > device.max_work_group)
    --(matvec.slices > 1 ? matvec.slices : matvec.lanes);
  matvec.lanes = std::bit_floor(matvec.lanes);  // divides a row group
  auto& tile = tuning.tile;
  while (tile_bytes(tile) > device.local_bytes && tile.tokens > 8) tile.tokens /= 2;
  while (tile.rows / tile.item_rows * (tile.tokens / tile.item_tokens) > device.max_work_group)
    (tile.item_tokens < tile.tokens ? tile.item_tokens : tile.item_rows) *= 2;
  return tuning;
}

std::optional<MatmulTuning> smaller_tile(MatmulTuning tuning) noexcept {
  auto& t = tuning.tile;
  if (t.tokens > t.item_tokens) {
    t.tokens /= 2;
  } else if (t.rows > kGroupRows) {
    t.rows = kGroupRows;
  } else if (t.item_rows < t.rows) {
    t.item_rows *= 2;
    t.item_tokens = t.tokens = std::max(1U, t.item_tokens / 2);
  } else {
    return std::nullopt;
  }
  return tuning;
}

std::optional<MatmulTuning> smaller_matvec(MatmulTuning tuning) noexcept {
  auto& m = tuning.matvec;
  if (m.slices == 1 && m.lanes == 1) return std::nullopt;
  (m.slices > 1 ? m.slices : m.lanes) /= 2;
  return tuning;
}

MatmulPlan plan_matmul(const MatmulDevice& device, const MatmulTuning& tuning, kernels::DType type,
                       std::span<const std::uint32_t> rows, std::uint32_t tokens, bool add) {
  if (tokens <= tuning.max_matvec_tokens)
    return matvec(tuning, "matvec", type, rows, std::bit_ceil(tokens), 1, add);
  if (device.processor) return panel(tuning, "matmul_panel", type, rows, tokens, 1, add);
  if (tokens <= kSomeTokens)
    return matvec(tuning, "matvec", type, rows, tuning.max_matvec_tokens,
                  divide_up(tokens, tuning.max_matvec_tokens), add);
  return tile(tuning, "matmul_tile", type, rows, tokens, 1, add);
}

bool experts_are_grouped(std::uint32_t pairs, std::uint32_t n_experts) noexcept {
  return pairs > kUngroupedPairs * n_experts;
}

std::vector<std::uint32_t> token_classes(std::uint32_t most) {
  std::vector<std::uint32_t> classes;
  for (std::uint32_t n = 1; n <= kMostMatvecTokens && n / 2 < most; n *= 2)
    classes.push_back(std::min(n, most));
  for (const std::uint32_t n : {kMostMatvecTokens, kSomeTokens})
    if (most > n) classes.push_back(n + 1);
  return classes;
}

std::vector<std::uint32_t> pair_classes(std::uint32_t most, std::uint32_t n_experts) {
  std::vector<std::uint32_t> classes{1};
  if (most > kUngroupedPairs * n_experts) classes.push_back(kUngroupedPairs * n_experts + 1);
  return classes;
}

ExpertPlan plan_expert_matmul(const MatmulDevice& device, const MatmulTuning& tuning, kernels::DType type,
                              std::uint32_t rows, std::uint32_t pairs, std::uint32_t n_experts) {
  const std::uint32_t matrices[] = {rows};
  if (!experts_are_grouped(pairs, n_experts))
    return {matvec(tuning, "moe_matvec", type, matrices, 1, pairs, false), false};
  if (device.processor) return {panel(tuning, "moe_matmul_panel", type, matrices, 0, n_experts, false), true};
  return {tile(tuning, "moe_matmul_tile", type, matrices, 0, n_experts, false), true};
}

MatmulPlan plan_moe_group(const MatmulDevice& device) {
  const std::size_t items = device.processor ? 1 : std::min(kMoeGroupItems, device.max_work_group);
  MatmulPlan plan;
  plan.files = {"moe_group"};
  plan.kernel = "moe_group";
  Options options;
  plan.options = options.define("ITEMS", static_cast<std::uint32_t>(items)).take();
  plan.global = plan.local = {items, 1};
  return plan;
}

}  // namespace flyball::opencl
