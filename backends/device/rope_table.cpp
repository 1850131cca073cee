#include "backends/device/rope_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace flyball::device {
namespace {

// The (fractional) frequency index whose angle makes `rotations` turns over the original context.
double index_of_rotations(const RopeTableArgs& a, double rotations) noexcept {
  return a.dim * std::log(a.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(a.base)));
}

}  // namespace

RopeTable::RopeTable(const RopeTableArgs& a)
    : angles_(a.dim / 2),
      magnitude_(a.rotates ? a.attn_factor : 1.0),
      temperature_scale_(a.temperature_scale),
      temperature_length_(a.temperature_length) {
  if (!a.rotates) return;
  const double scale = 1.0 / a.factor;
  double low = 0.0, high = 0.0;
  if (a.ext_factor != 0.0F) {
    low = std::max(0.0, std::floor(index_of_rotations(a, a.beta_fast)));
    high = std::min(a.dim - 1.0, std::ceil(index_of_rotations(a, a.beta_slow)));
    magnitude_ *= 1.0 + 0.1 * std::log(static_cast<double>(a.factor));
  }
  for (std::uint32_t i = 0; i < a.dim / 2; ++i) {
    const double frequency = std::pow(static_cast<double>(a.base), -2.0 * i / a.dim);
    const double unscaled = frequency / (a.frequency_factors != nullptr ? a.frequency_factors[i] : 1.0F);
    const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    const double mix = (1.0 - ramp) * a.ext_factor;
    angles_[i] = unscaled * (scale * (1.0 - mix) + mix);
  }
}

void RopeTable::rotation(std::uint32_t position, float* cos_sin) const noexcept {
  double magnitude = magnitude_;
  if (temperature_scale_ != 0.0)
    magnitude *= 1.0 + temperature_scale_ * std::log(1.0 + position / temperature_length_);
  for (const double one : angles_) {
    *cos_sin++ = static_cast<float>(std::cos(position * one) * magnitude);
    *cos_sin++ = static_cast<float>(std::sin(position * one) * magnitude);
  }
}

}  // namespace flyball::device
