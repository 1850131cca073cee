#include "daemon/measure/figures.hpp"

#include <algorithm>
#include <array>

namespace flyball::measure {
namespace {

constexpr std::array<std::string_view, kKinds> kNames = {
    "prefill_tps",   "decode_tps", "ttft_ms",   "load_ms",    "weight_bytes", "kv_bytes",
    "scratch_bytes", "watts",      "read_gbps", "float_gops", "int8_gops"};

}  // namespace

std::string_view to_string(Kind kind) noexcept {
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<Kind> kind_named(std::string_view name) noexcept {
  const auto it = std::ranges::find(kNames, name);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<Kind>(it - kNames.begin());
}

std::optional<Figure> figure_at(std::span<const Figure> figures, Kind kind, std::uint32_t at,
                                std::int64_t now) {
  const Figure* below = nullptr;
  const Figure* above = nullptr;
  for (const Figure& figure : figures) {
    if (figure.kind != kind || now - figure.measured_at > kLifetimeSeconds) continue;
    if (figure.at <= at && (below == nullptr || figure.at > below->at)) below = &figure;
    if (figure.at >= at && (above == nullptr || figure.at < above->at)) above = &figure;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  if (below == nullptr || above == nullptr || below == above) return below != nullptr ? *below : *above;
  const double share = static_cast<double>(at - below->at) / (above->at - below->at);
  return Figure{kind, at, below->value + share * (above->value - below->value),
                std::min(below->measured_at, above->measured_at)};
}

}  // namespace flyball::measure
