// Which of a machine's devices is meant: one rule for the daemon, which chooses among those that the probe
// found to compute, and for the engines, which open them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "backends/device_report.hpp"

namespace flyball::device {

struct Candidate {
  const DeviceIdentity* device = nullptr;
  bool usable = true;
};

// `part` stands in `whole`, in capitals or not, and no number is cut: "#1" is not part of "#10".
inline bool names(std::string_view part, std::string_view whole) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (std::size_t at = 0; at + part.size() <= whole.size(); ++at) {
    if (!std::ranges::equal(part, whole.substr(at, part.size()), {}, small, small)) continue;
    const auto end = at + part.size();
    const bool cut_before = at > 0 && digit(whole[at - 1]) && digit(whole[at]);
    const bool cut_after = end < whole.size() && digit(whole[end - 1]) && digit(whole[end]);
    if (!cut_before && !cut_after) return true;
  }
  return false;
}

// Discrete before integrated before software; among equals the one with more memory, then the first. `name`
// names part of the id or of the driver; "": any that is no processor, or any at all with allow_processor.
inline std::optional<std::size_t> choose_device(std::span<const Candidate> devices, std::string_view name,
                                                bool allow_processor = false) {
  const auto meant = [&](const Candidate& d) {
    if (name.empty()) return allow_processor || !d.device->software();
    return names(name, d.device->id) || names(name, d.device->driver);
  };
  const auto rank = [](const Candidate& d) {
    return std::pair(d.device->software() ? 0 : d.device->unified ? 1 : 2, d.device->memory_bytes);
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].usable && meant(devices[i]) && (!best || rank(devices[i]) > rank(devices[*best])))
      best = i;
  return best;
}

// The one with this id, whatever it is.
inline std::optional<std::size_t> device_of_id(std::span<const Candidate> devices, std::string_view id) {
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].usable && devices[i].device->id == id) return i;
  return std::nullopt;
}

}  // namespace flyball::device
