// config.yaml's `calibrate` table: when the daemon measures by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "config/table.hpp"

namespace flyball::config {

struct CalibrateRules {
  // Without a request for so long it measures what was not measured, or is about to expire; 0: never.
  std::chrono::milliseconds idle{0};
  // The ceilings of GPU engines are measured soon after a start, and before they expire, whatever `idle`
  // says.
  bool ceilings = true;
  // But not while others work here: load average of a minute, percent of the processors.
  std::uint32_t max_load = 30;
};

const std::vector<Bound<CalibrateRules>>& calibrate_table();

}  // namespace flyball::config
