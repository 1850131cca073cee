#include "daemon/cli/measurements.hpp"

#include <ctime>
#include <filesystem>
#include <system_error>

#include "daemon/cli/config_files.hpp"
#include "daemon/measure/measured_store.hpp"
#include "daemon/route/hardware_facts.hpp"
#include "daemon/store/database.hpp"

namespace flyball::cli {

std::vector<measure::Engine> engines_of(const route::HardwareReport& report, const config::Config& config) {
  std::vector<measure::Engine> engines{measure::processor(report.cpu)};
  const auto add = [&](const char* backend, const DeviceProbe& probe,
                       const std::expected<std::vector<std::string>, std::string>& ids) {
    if (!ids) return;
    if (auto engine = measure::gpu_engine(backend, probe, *ids)) engines.push_back(std::move(*engine));
  };
  add("vulkan", report.vulkan, route::vulkan_devices(report, config.vulkan));
  add("opencl", report.opencl, route::opencl_devices(report, config.opencl));
  return engines;
}

Result<measure::Book> measured_book(const config::Config& config, std::span<const measure::Engine> engines) {
  const auto state_dir = config.state_dir.empty() ? default_state_dir() : config.state_dir;
  std::error_code ignored;
  const auto file = store::file_in(state_dir);
  if (state_dir.empty() || !std::filesystem::exists(file, ignored)) return measure::Book();
  auto database = store::Database::open(file, store::Database::Access::read_only);
  if (!database) return std::unexpected(std::move(database.error()));
  const auto measured = measure::load(*database, std::time(nullptr));
  if (!measured) return std::unexpected(measured.error());
  return measure::Book(*measured, engines, config.models);
}

}  // namespace flyball::cli
