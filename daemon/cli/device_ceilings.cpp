#include "daemon/cli/device_ceilings.hpp"

#include <ctime>
#include <vector>

#include "backends/local/engine_kinds.hpp"

namespace flyball::cli {

Result<measure::Ceilings> measure_ceilings(const local::LocalBackendOptions& options) {
  auto rates = local::find_engine(options.backend)->measure_rates(options);
  if (!rates) return pass(rates);
  std::vector<measure::Ceilings> devices;
  for (const local::DeviceRates& one : *rates) {
    measure::Ceilings& ceilings = devices.emplace_back();
    ceilings.read_gbps = one.read / 1e9;
    ceilings.float_gops = one.multiply_add / 1e9;
    ceilings.measured_at = std::time(nullptr);
  }
  return devices.size() == 1 ? devices.front() : measure::in_turn(devices);
}

}  // namespace flyball::cli
