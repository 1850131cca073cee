// Whether a request held its SLO, by the times that it took. Pure.
#pragma once

#include <chrono>
#include <optional>

#include "config/app_manifest.hpp"

namespace flyball::route {

// The times of one request, since its admission.
struct TimesTaken {
  std::optional<std::chrono::microseconds> ttft = {};  // nullopt: no token yet
  std::chrono::microseconds tpot{0};                   // the slowest of its complete answers
  std::chrono::microseconds total{0};                  // so far
  bool complete = false;                               // every answer has ended well
};

// nullopt: nobody knows yet, and nobody ever will where the request is over.
inline std::optional<bool> slo_held(const config::Slo& slo, const TimesTaken& times) {
  if (slo.ttft && times.ttft.value_or(times.total) > *slo.ttft) return false;
  if (slo.deadline && times.total > *slo.deadline) return false;
  if (slo.tpot && times.tpot > *slo.tpot) return false;
  const bool only_ttft = slo.ttft && !slo.tpot && !slo.deadline;
  return times.complete || (only_ttft && times.ttft) ? std::optional(true) : std::nullopt;
}

}  // namespace flyball::route
