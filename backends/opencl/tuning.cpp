#include "backends/opencl/tuning.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "kernels/formats/format_table.h"

namespace flyball::opencl {
namespace {

// Sums that a work-item of a tile may hold: beyond, compilers unroll for minutes what no register file holds.
constexpr std::uint32_t kMostItemSums = 256;

#define PARAMETER(name, most)                                                       \
  {                                                                                 \
#name, most, [](MatmulTuning & t) noexcept -> std::uint32_t& { return t.name; } \
  }
constexpr TuningParameter kParameters[] = {
    PARAMETER(max_matvec_tokens, 8), PARAMETER(vector, 16),        PARAMETER(matvec.vectors, 4),
    PARAMETER(matvec.lanes, 32),     PARAMETER(matvec.slices, 64), PARAMETER(panel.vectors, 4),
    PARAMETER(panel.tokens, 16),     PARAMETER(panel.steps, 16),   PARAMETER(panel.chunk, 512),
    PARAMETER(tile.rows, 128),       PARAMETER(tile.tokens, 128),  PARAMETER(tile.item_rows, 64),
    PARAMETER(tile.item_tokens, 64)};
#undef PARAMETER
static_assert(sizeof(MatmulTuning) == std::size(kParameters) * sizeof(std::uint32_t),
              "every parameter has its row");

bool divides_group(std::uint64_t rows) {
  return rows > 0 && kGroupRows % rows == 0;
}

}  // namespace

std::string to_string(const MatrixShape& m) {
  return std::string(kernels::to_string(m.type)) + " " + std::to_string(m.rows) + "x" +
         std::to_string(m.cols);
}

std::span<const TuningParameter> tuning_parameters() noexcept {
  return kParameters;
}

std::string out_of_range(const MatmulTuning& tuning) {
  for (const TuningParameter& p : kParameters)
    if (const std::uint32_t value = p.value(tuning); value < 1 || value > p.most)
      return std::string(p.name) + " is " + std::to_string(value) + "; it must be 1 to " +
             std::to_string(p.most);
  return {};
}

std::string refusal(const MatmulDevice& device, const MatmulTuning& tuning) {
  if (std::string why = out_of_range(tuning); !why.empty()) return why;
  const auto& [vectors, lanes, slices] = tuning.matvec;
  if (!std::has_single_bit(tuning.max_matvec_tokens)) return "max_matvec_tokens is no power of two";
  if (!std::has_single_bit(tuning.vector)) return "vector is no power of two";
  if (!divides_group(std::uint64_t{lanes} * tuning.vector * vectors))
    return "matvec.lanes x vector x matvec.vectors does not divide a group of 32 rows";
  if (lanes * slices > device.max_work_group)
    return "matvec.lanes x matvec.slices is " + std::to_string(lanes * slices) +
           " work-items; the device has " + std::to_string(device.max_work_group);
  // A tile's sums and a panel's are those of one slice.
  if (device.processor && slices != 1) return "matvec.slices must be 1 on a processor";
  const std::uint64_t shared = 4ULL * slices * tuning.max_matvec_tokens * lanes * tuning.vector * vectors;
  if (slices > 1 && shared > device.local_bytes)
    return "matvec shares " + std::to_string(shared) + " bytes; the device has " +
           std::to_string(device.local_bytes);
  if (device.processor) {
    const auto& p = tuning.panel;
    if (!divides_group(std::uint64_t{tuning.vector} * p.vectors))
      return "vector x panel.vectors does not divide a group of 32 rows";
    if (p.chunk % p.tokens != 0) return "panel.chunk is no multiple of panel.tokens";
    return {};
  }
  // A tile sums in another order than matvec, and few rows are summed as one is.
  if (tuning.max_matvec_tokens != 8) return "max_matvec_tokens must be 8 on a GPU";
  const auto& t = tuning.tile;
  if (t.rows % kGroupRows != 0) return "tile.rows is no multiple of 32";
  if (t.rows % t.item_rows != 0) return "tile.rows is no multiple of tile.item_rows";
  if (t.tokens % t.item_tokens != 0) return "tile.tokens is no multiple of tile.item_tokens";
  if (t.item_rows * t.item_tokens > kMostItemSums)
    return "tile.item_rows x tile.item_tokens is more than " + std::to_string(kMostItemSums);
  if (const std::uint32_t items = t.rows / t.item_rows * (t.tokens / t.item_tokens);
      items > device.max_work_group)
    return "a tile is " + std::to_string(items) + " work-items; the device has " +
           std::to_string(device.max_work_group);
  if (const std::uint64_t bytes = tile_bytes(t); bytes > device.local_bytes)
    return "a tile shares " + std::to_string(bytes) + " bytes; the device has " +
           std::to_string(device.local_bytes);
  return {};
}

bool same_sums(const MatmulDevice& device, const MatmulTuning& a, const MatmulTuning& b) noexcept {
  return device.processor || a.matvec.slices == b.matvec.slices;
}

std::string changes(const MatmulTuning& from, const MatmulTuning& to) {
  std::string out;
  for (const TuningParameter& p : kParameters) {
    if (p.value(from) == p.value(to)) continue;
    out += (out.empty() ? "" : ", ") + std::string(p.name) + " " + std::to_string(p.value(from)) + " -> " +
           std::to_string(p.value(to));
  }
  return out;
}

const MatmulTuning& TuningTable::at(const TuningKey& key) const {
  const auto it = tuned_.find(key);
  return it == tuned_.end() ? shipped_ : it->second;
}

void TuningTable::set(const TuningKey& key, const MatmulTuning& tuning) {
  if (changes(shipped_, tuning).empty()) {
    tuned_.erase(key);
  } else {
    tuned_.insert_or_assign(key, tuning);
  }
}

std::optional<TuningTable> without_what_needs_more(const TuningTable& table, std::string_view kernel) {
  if (!table.tuned().empty()) return TuningTable(table.shipped());
  std::optional<MatmulTuning> smaller;
  if (kernel.ends_with("tile")) smaller = smaller_tile(table.shipped());
  if (kernel.ends_with("matvec")) smaller = smaller_matvec(table.shipped());
  if (!smaller) return std::nullopt;
  return TuningTable(*smaller);
}

}  // namespace flyball::opencl
