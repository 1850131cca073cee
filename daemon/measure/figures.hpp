// What was measured of one model on one engine of this machine, and what it says about a certain load. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::measure {

// What a measurement is of. Where any of it is another, so are the figures.
struct Subject {
  std::string model;    // digest of its file (subject.hpp); "": of the device alone
  std::string backend;  // an engine kind
  std::string device;   // as probed
  std::string driver;   // with its version; of the processor: this program's
  std::string setup;    // how the model is served: "kv f16", "kv q8_0, 4 threads"
  bool operator==(const Subject&) const = default;
};

enum class Kind : std::uint8_t {
  prefill_tps,
  decode_tps,
  ttft_ms,
  load_ms,
  weight_bytes,
  kv_bytes,
  scratch_bytes,
  watts,
  // Of a subject without a model: what its device can do (roofline.hpp).
  read_gbps,
  float_gops,
  int8_gops
};
inline constexpr std::size_t kKinds = 11;
std::string_view to_string(Kind kind) noexcept;  // "prefill_tps"
std::optional<Kind> kind_named(std::string_view name) noexcept;

struct Figure {
  Kind kind = Kind::prefill_tps;
  std::uint32_t at = 0;  // prefill_tps, ttft_ms: tokens of the prompt; decode_tps: streams; others: 0
  double value = 0;
  std::int64_t measured_at = 0;  // seconds since 1970
};

struct Measured {
  Subject subject;
  Figure figure;
};

// Older measurements count no more: drivers, cooling and neighbours change without telling.
inline constexpr std::int64_t kLifetimeSeconds = 30LL * 24 * 3600;

// The figure of this kind at `at`: between two that were measured by linear interpolation, beyond them the
// nearest one. Its time is that of the older one. nullopt: none is there, or none younger than
// kLifetimeSeconds.
std::optional<Figure> figure_at(std::span<const Figure> figures, Kind kind, std::uint32_t at,
                                std::int64_t now);

}  // namespace flyball::measure
