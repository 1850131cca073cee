// The work of idle calibration: engines of this machine without ceilings, and configured models that have no
// figures on one of its engines.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/config.hpp"
#include "daemon/calibrate/idle_refresh.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/measure/subject.hpp"

namespace flyball::calibrate {

// As an engine that started now would be told: of this configuration, and of the machine's memory what one
// could have beside the pinned ones, by which a mixture keeps its experts. Each is due again where what its
// pool has for one is another. until: figures that expire before count no more.
std::vector<IdleRefresh::Work> unmeasured(const config::Config& config, const measure::Book& measured,
                                          std::span<const measure::Engine> engines,
                                          const std::vector<fleet::DeviceMemory>& devices,
                                          const fleet::MemoryStatus& memory, std::int64_t until);

// The engines whose devices' ceilings no measurement tells that counts at `until`.
std::vector<IdleRefresh::Work> unmeasured_ceilings(const config::Config& config,
                                                   const measure::Book& measured,
                                                   std::span<const measure::Engine> engines,
                                                   const std::vector<fleet::DeviceMemory>& devices,
                                                   std::int64_t until);

}  // namespace flyball::calibrate
