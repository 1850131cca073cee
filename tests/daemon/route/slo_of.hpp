// The SLO of an app, by its times.
#pragma once

#include <chrono>
#include <optional>

#include "config/app_manifest.hpp"

namespace flyball::route {

inline config::Slo slo_of(std::optional<std::chrono::milliseconds> ttft,
                          std::optional<std::chrono::milliseconds> tpot = {},
                          std::optional<std::chrono::milliseconds> deadline = {}) {
  config::Slo out;
  out.ttft = ttft;
  out.tpot = tpot;
  out.deadline = deadline;
  return out;
}

}  // namespace flyball::route
