#include "backends/vulkan/matmul_plan.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <limits>

namespace flyball::vulkan {
namespace {

constexpr std::uint32_t kMaxGroups = 65'535;  // of a dimension that every device has
// llvmpipe ends a kernel's loops after so many turns of all of them, without a word:
// LP_MAX_TGSI_LOOP_ITERATIONS in Mesa's lp_bld_limits.h.
constexpr std::uint64_t kMostTurns = 65'535;
constexpr std::uint32_t kPart = 32;  // columns summed at a time (kernels/vulkan/weights.glsl)

// How kernels/vulkan/product.glsl is cut. On a processor a load costs as much as twenty products, whatever
// lies next to what, so every invocation has rows of its own and values of x go round in the subgroup; a
// GPU's neighbours read neighbouring chunks of one row. What decides on the order of sums is the same for
// every number of tokens.
struct Cut {
  std::uint32_t group = 0, slices = 1, rows = 1, tokens = 1, subgroup = 0;
  std::uint32_t group_rows() const { return group / slices * rows; }
};

// Tokens of a work-group of texel_matmul and texel_panel. Few kernels, because a software driver keeps what
// each was compiled from, megabytes of the large ones: so one token has a loop of its own, and of floats
// four, where it takes a quarter less than a panel. Any other count goes by texel_panel, which decodes a
// panel for up to 256, so that decoding costs little; where its loops would have too many turns, for half of
// them.
constexpr std::uint32_t kFewTokens = 4, kPanelTokens = 256;
constexpr std::uint32_t kLaneColumns = 16;  // of a panel: kHalf in kernels/vulkan/software/texel.glsl
constexpr std::uint32_t kMostLanes = 16;    // whose panel, of 64 rows, is 64 KB
// What a thread reads at once of a matrix lies in as many places as a group has rows: more than 16, and no
// processor fetches ahead. With more tokens, decoding has to pay.
constexpr std::uint32_t kRowsOfOne = 2, kRowsOfFew = 4;
constexpr std::uint32_t kPanelRows = 4;  // their sums are stored as 16 bytes

constexpr std::uint32_t kMaxTokens =
    8;  // of a work-group: what an invocation can hold, and a driver compiles in a second

Cut cut_of(const DeviceFacts& device, kernels::DType type, std::uint32_t tokens) {
  Cut cut{.group = 64, .slices = 16, .rows = 2, .tokens = std::min(std::bit_ceil(tokens), kMaxTokens)};
  const bool passing = device.processor && device.subgroup_size > 1 && kPart % device.subgroup_size == 0;
  if (passing && !by_integer_dot(device, type)) {
    cut.group = cut.subgroup = device.subgroup_size;
    cut.slices = 1;
    cut.rows = cut.tokens == 1 ? 4 : 8;
  }
  return cut;
}

std::string product(std::string_view kernel, const DeviceFacts& device, kernels::DType type) {
  return per_format(std::string(kernel) + (by_integer_dot(device, type) ? "_dot" : ""), type);
}

std::vector<std::uint32_t> constants_of(const Cut& cut, const WeightFormat& format, std::uint32_t cols) {
  return {
      cut.group, format.place(), cut.slices, cut.rows, cut.tokens, cut.subgroup, cols % kPart != 0 ? 1U : 0U};
}

}  // namespace

std::uint32_t WeightFormat::place() const noexcept {
  const std::uint32_t scales = scale_type == kernels::DType::f32    ? 2
                               : scale_type == kernels::DType::bf16 ? 4
                                                                    : 0;
  return (in_place ? 1U : 0U) | (kernels::affine_of(type) ? scales : 0U);
}

WeightFormat format_of(kernels::DType type, std::uint32_t cols, Address rows, kernels::DType scale_type,
                       Address scales, Address biases) noexcept {
  constexpr std::uint32_t kWord = 8;  // the widest load of the kernels
  const kernels::BlockShape block = kernels::block_shape(type);
  WeightFormat out{.type = type, .in_place = false, .scale_type = kernels::DType::f16};
  if (kernels::affine_of(type)) {
    const std::uint32_t size = kernels::block_shape(scale_type).bytes;
    out.scale_type = scale_type;
    out.in_place = rows % kWord == 0 && block.bytes % kWord == 0 && (scales | biases) % size == 0;
  } else if (block.values == 1) {
    out.in_place = rows % kWord == 0 && kernels::row_bytes(type, cols) % kWord == 0;
  }
  return out;
}

std::string per_format(std::string_view kernel, kernels::DType type) {
  std::string name = std::string(kernel) + "_";
  for (const char c : kernels::to_string(type)) name += static_cast<char>(std::tolower(c));
  return name;
}

MatmulPlan plan_matmul(const DeviceFacts& device, const WeightFormat& format,
                       std::span<const std::uint32_t> rows, std::uint32_t cols, std::uint32_t n) {
  const Cut cut = cut_of(device, format.type, n);
  std::uint64_t parts = 0;
  for (const std::uint32_t r : rows) parts += divided_up(r, cut.group_rows());
  const std::uint32_t folds = divided_up(parts, kMaxGroups);
  return {.kernel = product("matmul", device, format.type),
          .constants = constants_of(cut, format, cols),
          .groups = {divided_up(parts, folds), folds, divided_up(n, cut.tokens)},
          .prepared = by_integer_dot(device, format.type)};
}

bool by_integer_dot(const DeviceFacts& device, kernels::DType type) noexcept {
  return device.integer_dot && kernels::row_of(type).kind == kernels::FormatKind::blocks;
}

std::uint64_t prepared_bytes(const DeviceFacts& device, kernels::DType type, std::uint64_t n,
                             std::uint32_t cols) noexcept {
  return by_integer_dot(device, type) ? n * (cols / FLYBALL_PREPARED_VALUES) * FLYBALL_PREPARED_BYTES : 0;
}

std::array<std::uint32_t, 3> prepare_groups(const DeviceFacts& device, std::uint64_t blocks) noexcept {
  return {std::min(divided_up(blocks, group_size(device, "prepare_activations")), kMaxGroups), 1, 1};
}

bool by_texel(const DeviceFacts& device, kernels::DType type) noexcept {
  return device.texel_bytes > 0 && !by_integer_dot(device, type) && kernels::row_of(type).texel;
}

namespace {

// What the first bytes of all rows are multiples of: 2, 8 or 16. Nothing: no kernel by texel is for these.
std::optional<std::uint32_t> texel_alignment(const DeviceFacts& device, kernels::DType type,
                                             std::span<const std::uint32_t> rows, std::uint32_t cols,
                                             std::span<const std::uint64_t> w_at) {
  if (!by_texel(device, type) || cols % kPart != 0 || device.subgroup_size < 2 ||
      device.subgroup_size > kMostLanes || !std::has_single_bit(device.subgroup_size))
    return std::nullopt;
  const std::uint64_t row_bytes = kernels::row_bytes(type, cols);
  std::uint64_t bits = row_bytes;  // the lowest says it
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (w_at[i] + rows[i] * row_bytes > device.texel_bytes) return std::nullopt;
    bits |= w_at[i];
  }
  if (bits % 2 != 0) return std::nullopt;  // MLX's tensors may lie at any byte
  return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : 2;
}

MatmulPlan texel_plan(const DeviceFacts& device, std::string_view kernel, kernels::DType type,
                      std::array<std::uint32_t, 4> constants, std::span<const std::uint32_t> rows,
                      std::uint32_t n) {
  const auto [group_rows, tokens, blocks, aligned] = constants;
  std::uint64_t parts = 0;
  for (const std::uint32_t r : rows) parts += divided_up(r, device.subgroup_size * group_rows);
  const std::uint32_t folds = divided_up(parts, kMaxGroups);
  return {.kernel = per_format(kernel, type),
          .constants = {device.subgroup_size, group_rows, tokens, blocks, aligned, device.permutes ? 1U : 0U},
          .groups = {divided_up(n, tokens), divided_up(parts, folds), folds}};
}

}  // namespace

std::optional<MatmulPlan> plan_texel_matmul(const DeviceFacts& device, kernels::DType type,
                                            std::span<const std::uint32_t> rows, std::uint32_t cols,
                                            std::uint32_t n, std::span<const std::uint64_t> w_at) {
  const auto aligned = texel_alignment(device, type, rows, cols, w_at);
  if (!aligned) return std::nullopt;
  const bool one = n == 1, floats = kernels::block_shape(type).values == 1;
  // Of 34 and 18 bytes: eight are whole texels where rows are, four are less to shift than four times one.
  const std::uint32_t blocks = one && !floats && *aligned >= 8 ? *aligned / 2 : 1;
  return texel_plan(device, "texel_matmul", type,
                    {one ? kRowsOfOne : kRowsOfFew, one ? 1 : kFewTokens, blocks, *aligned}, rows, n);
}

std::optional<MatmulPlan> plan_texel_panel(const DeviceFacts& device, kernels::DType type, std::uint32_t rows,
                                           std::uint32_t cols, std::uint32_t n, std::uint64_t w_at,
                                           std::uint64_t y_at) {
  const auto aligned = texel_alignment(device, type, {&rows, 1}, cols, {&w_at, 1});
  const std::uint64_t y_end = y_at + sizeof(float) * n * std::uint64_t{rows};
  const auto turns = [&](std::uint32_t tokens) {
    const std::uint64_t panels = divided_up(cols, kLaneColumns * std::uint64_t{device.subgroup_size});
    return panels * (std::uint64_t{tokens} + 2) + 2;
  };
  const bool floats = kernels::block_shape(type).values == 1;
  if (!aligned || n == 1 || (floats && n == kFewTokens) || rows % kPanelRows != 0 ||
      y_at % (kPanelRows * sizeof(float)) != 0 || y_end > std::min(device.texel_bytes, device.storage_bytes))
    return std::nullopt;
  const std::uint32_t tokens = turns(kPanelTokens) > kMostTurns ? kPanelTokens / 2 : kPanelTokens;
  if (turns(std::min(n, tokens)) > kMostTurns) return std::nullopt;
  MatmulPlan plan = texel_plan(device, "texel_panel", type, {kPanelRows, tokens, 1, *aligned}, {&rows, 1}, n);
  std::ranges::rotate(plan.groups, plan.groups.begin() + 1);  // rows first: tokens stay in a cache
  return plan;
}

ExpertPlan plan_expert_matmul(const DeviceFacts& device, const WeightFormat& format, std::uint32_t rows,
                              std::uint32_t cols, std::uint32_t pairs, std::uint32_t n_experts) {
  const bool grouped = pairs > 2 * n_experts;
  const Cut cut = cut_of(device, format.type, grouped ? divided_up(pairs, n_experts) : 1);
  return {.matmul = {.kernel = product(grouped ? "moe_matmul" : "moe_matvec", device, format.type),
                     .constants = constants_of(cut, format, cols),
                     .groups = {divided_up(rows, cut.group_rows()), grouped ? n_experts : pairs, 1},
                     .prepared = by_integer_dot(device, format.type)},
          .grouped = grouped};
}

bool experts_can_do(const DeviceFacts& device, std::uint32_t n, std::uint32_t used, std::uint32_t n_experts,
                    std::uint32_t cols) noexcept {
  if (!device.processor) return true;
  constexpr std::uint64_t kFewest = 4;  // tokens of a turn of moe_matmul
  const std::uint64_t counted = std::uint64_t{2} * n * used + 3;
  const std::uint64_t grouping = divided_up(n_experts, group_size(device, "moe_group")) * counted + 3;
  // All rows may choose the same expert, each once.
  const std::uint64_t multiplying =
      divided_up(std::uint64_t{n}, kFewest) * (divided_up(cols, kPart) + 2ULL) + 2;
  return std::max(grouping, multiplying) <= kMostTurns;
}

std::uint32_t group_size(const DeviceFacts& device, std::string_view kernel) noexcept {
  const std::uint32_t most = std::bit_floor(std::max(1U, device.max_work_group));
  if (kernel.starts_with("attend_") || kernel == "texel_rms_norm")
    return device.subgroup_size;  // which it is
  return std::min(most, device.processor ? 64U : 256U);
}

AttendPlan plan_attend(const DeviceFacts& device, std::uint32_t head_dim, std::uint32_t group,
                       std::uint32_t block_size, std::uint64_t positions) {
  // A GPU has room for many subgroups, each of which takes the positions of its split one after the other.
  // Its long contexts get longer splits, so that the partial results stay small.
  const std::uint64_t shortest_split = device.processor ? 256 : 64;
  const std::uint64_t most_splits = device.processor ? 1024 : 256;
  // Sums of all queries of a work-group are an invocation's own: dimensions * queries / subgroup.
  const std::uint32_t queries = std::clamp(8U * 128U / std::max(1U, head_dim), 1U, 16U);
  const std::uint64_t wanted = std::max<std::uint64_t>(shortest_split, divided_up(positions, most_splits));
  AttendPlan plan{.split = divided_up(wanted, block_size) * block_size,
                  .item_rows = std::max(1U, queries / std::max(1U, group)),
                  .most_positions = std::numeric_limits<std::uint32_t>::max()};
  if (!device.processor) return plan;
  const std::uint64_t lanes = std::max(1U, device.subgroup_size);
  const std::uint64_t tile = 1 + 2 * (lanes + 1);  // its turns; a loop that ends has one more
  // attend_combine looks at every split for some dimensions at a time.
  const std::uint64_t splits =
      std::min(most_splits, (kMostTurns - 1) / divided_up(std::uint64_t{head_dim}, lanes) - 2);
  // attend_rows takes all splits in order; each has 2 turns beside its tiles' and is counted 4.
  const auto most = [&](std::uint64_t split) {
    const std::uint64_t turns = 4 + divided_up(split, lanes) * (plan.unrolled ? 1 : tile);
    return std::min((kMostTurns - 4) / turns, splits) * split;
  };
  const std::uint32_t shortest = divided_up(shortest_split, block_size) * block_size;
  plan.unrolled = most(shortest) < positions;
  plan.most_positions = 0;
  // attend_split has loops in any case.
  const std::uint64_t longest = (kMostTurns - 8) / tile * lanes;
  for (std::uint32_t split = shortest; split <= longest && plan.most_positions < positions;
       split += block_size)
    if (most(split) > plan.most_positions) {
      plan.split = split;
      plan.most_positions = most(split);
    }
  return plan;
}

}  // namespace flyball::vulkan
