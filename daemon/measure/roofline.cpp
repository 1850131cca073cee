#include "daemon/measure/roofline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace flyball::measure {
namespace {

std::string number(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3g", value);
  return out;
}

// A path to the device carries weights once. Without one they are read and written in the same memory.
double seconds_to_load(const Ceilings& ceilings, double bytes) {
  if (ceilings.load_gbps > 0) return bytes / (std::min(ceilings.load_gbps, ceilings.read_gbps) * 1e9);
  return 2 * bytes / (ceilings.read_gbps * 1e9);
}

}  // namespace

Ceilings ceilings_of(std::span<const Figure> figures, std::int64_t now) {
  Ceilings out;
  for (const Figure& figure : figures) {
    if (now - figure.measured_at > kLifetimeSeconds) continue;
    double* const to = figure.kind == Kind::read_gbps    ? &out.read_gbps
                       : figure.kind == Kind::float_gops ? &out.float_gops
                       : figure.kind == Kind::int8_gops  ? &out.int8_gops
                                                         : nullptr;
    if (to == nullptr) continue;
    *to = figure.value;
    out.measured_at = std::max(out.measured_at, figure.measured_at);
  }
  return out;
}

Ceilings in_turn(std::span<const Ceilings> devices) {
  Ceilings out;
  const auto together = [&](double Ceilings::*rate) {
    double seconds = 0;
    for (const Ceilings& one : devices) {
      if (one.*rate <= 0) return 0.0;
      seconds += 1 / (one.*rate);
    }
    return devices.empty() ? 0.0 : static_cast<double>(devices.size()) / seconds;
  };
  out.read_gbps = together(&Ceilings::read_gbps);
  out.float_gops = together(&Ceilings::float_gops);
  out.int8_gops = together(&Ceilings::int8_gops);
  if (std::ranges::any_of(devices, [](const Ceilings& one) { return one.load_gbps > 0; })) {
    double seconds = 0;
    for (const Ceilings& one : devices) seconds += seconds_to_load(one, 1e9);
    out.load_gbps = seconds > 0 ? static_cast<double>(devices.size()) / seconds : 0;
  }
  for (const Ceilings& one : devices) {
    if (out.assumed_of.empty()) out.assumed_of = one.assumed_of;
    out.page_gbps = std::max(out.page_gbps, one.page_gbps);  // the machine's, of all that have one
  }
  for (const Ceilings& one : devices)
    out.measured_at = out.measured_at == 0 ? one.measured_at : std::min(out.measured_at, one.measured_at);
  return out;
}

// What a token reads is what it multiplies with: a table of embeddings is neither.
double Roofline::operations() const noexcept {
  return 2.0 * static_cast<double>(model_.parameters) * static_cast<double>(model_.token_weight_bytes) /
         static_cast<double>(model_.weight_bytes);
}

double Roofline::gops() const noexcept {
  return model_.quantized && ceilings_.int8_gops > 0 ? ceilings_.int8_gops : ceilings_.float_gops;
}

// An engine in the machine's memory takes the pages of its weights and of its KV cache at the load: see
// CpuOps::reserve_kv and VulkanOps::reserve_kv.
double Roofline::page_bytes() const noexcept {
  const bool takes_pages = ceilings_.load_gbps <= 0 && ceilings_.page_gbps > 0;
  return takes_pages ? static_cast<double>(model_.weight_bytes) + static_cast<double>(model_.kv_bytes) : 0;
}

double Roofline::load_seconds() const noexcept {
  const double pages = page_bytes();
  return seconds_to_load(ceilings_, static_cast<double>(model_.weight_bytes)) +
         (pages > 0 ? pages / (ceilings_.page_gbps * 1e9) : 0);
}

std::string Roofline::of_class() const {
  return ceilings_.assumed_of.empty() ? "" : " of " + std::string(ceilings_.assumed_of);
}

// Of a mixture each token chooses as if it knew nothing of the others.
double Roofline::read_bytes(double tokens) const noexcept {
  const auto one = static_cast<double>(model_.token_weight_bytes),
             all = static_cast<double>(model_.weight_bytes);
  return model_.mixture ? all * (1 - std::pow(1 - one / all, tokens)) : one;
}

Roofline::Prediction Roofline::step_seconds(double tokens) const noexcept {
  const double reading = read_bytes(tokens) / (ceilings_.read_gbps * 1e9);
  const double computing = gops() > 0 ? operations() * tokens / (gops() * 1e9) : 0;
  return {std::max(reading, computing), reading >= computing};
}

std::optional<Roofline::Prediction> Roofline::predict(Kind kind, std::uint32_t at) const {
  if (ceilings_.read_gbps <= 0 || model_.token_weight_bytes == 0 ||
      model_.weight_bytes < model_.token_weight_bytes)
    return std::nullopt;
  if (kind == Kind::load_ms) return Prediction{kStartMs + 1e3 * load_seconds(), true};
  const double tokens = std::max(at, 1U);
  if (kind == Kind::decode_tps) {
    const Prediction step = step_seconds(tokens);
    return Prediction{tokens / step.value, step.of_memory};
  }
  if ((kind != Kind::prefill_tps && kind != Kind::ttft_ms) || gops() <= 0 || model_.parameters == 0)
    return std::nullopt;
  const double whole = std::floor(tokens / kStepTokens), rest = tokens - whole * kStepTokens;
  const Prediction step = step_seconds(std::min<double>(tokens, kStepTokens));
  const double seconds = whole * step.value + (rest > 0 ? step_seconds(rest).value : 0);
  return Prediction{kind == Kind::ttft_ms ? seconds * 1e3 : tokens / seconds, step.of_memory};
}

std::string Roofline::basis(Kind kind, const Prediction& prediction) const {
  constexpr double kGiga = 1e9;
  const bool assumed = !ceilings_.assumed_of.empty();
  const std::string what = assumed ? "assumed " : "roofline ";
  if (kind == Kind::load_ms) {
    const bool is_carried = ceilings_.load_gbps > 0;
    const double rate = is_carried ? std::min(ceilings_.load_gbps, ceilings_.read_gbps) : ceilings_.read_gbps;
    return number(static_cast<double>(model_.weight_bytes) / kGiga) +
           (is_carried ? " GB carried at " : " GB read and written at ") +
           (is_carried || assumed ? "assumed " : "") + number(rate) + " GB/s" + of_class() +
           (page_bytes() > 0 ? ", " + number(page_bytes() / kGiga) + " GB of pages taken at " +
                                   number(ceilings_.page_gbps) + " GB/s"
                             : "");
  }
  if (prediction.of_memory)
    return what + number(ceilings_.read_gbps) + " GB/s" + of_class() + " / " +
           number(static_cast<double>(model_.token_weight_bytes) / kGiga) + " GB";
  return what + number(gops()) + " GFLOP/s" + of_class() + " / " + number(operations() / kGiga) +
         " GFLOP a token";
}

}  // namespace flyball::measure
