#include "daemon/cli/device_ceilings.hpp"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "backends/opencl/ceilings.hpp"
#include "backends/vulkan/ceilings.hpp"

namespace flyball::cli {
namespace {

constexpr std::uint64_t kReadBytes = 256ULL << 20;  // beyond the caches of the devices in view
constexpr int kRounds = 3;  // the fastest counts: others may have used the device meanwhile

template <class Opened>
Result<measure::Ceilings> best_of(Result<std::unique_ptr<Opened>> opened) {
  if (!opened) return std::unexpected(std::move(opened.error()));
  measure::Ceilings best;
  for (int round = 0; round < kRounds; ++round) {
    const auto read = (*opened)->read();
    if (!read) return std::unexpected(read.error());
    const auto added = (*opened)->multiply_add();
    if (!added) return std::unexpected(added.error());
    best.read_gbps = std::max(best.read_gbps, *read / 1e9);
    best.float_gops = std::max(best.float_gops, *added / 1e9);
  }
  best.measured_at = std::time(nullptr);
  return best;
}

}  // namespace

Result<measure::Ceilings> measure_ceilings(const local::LocalBackendOptions& options) {
  if (options.backend == "vulkan") return best_of(vulkan::DeviceCeilings::open(options.vulkan, kReadBytes));
  std::vector<measure::Ceilings> devices;
  for (const opencl::DeviceOptions& device : options.opencl) {
    auto one = best_of(opencl::DeviceCeilings::open(device, kReadBytes));
    if (!one) return one;
    devices.push_back(*one);
  }
  return measure::in_turn(devices);
}

}  // namespace flyball::cli
