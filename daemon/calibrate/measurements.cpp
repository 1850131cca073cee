#include "daemon/calibrate/measurements.hpp"

#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "daemon/measure/measured_store.hpp"
#include "daemon/measure/outcomes.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/store/database.hpp"

namespace flyball::calibrate {
namespace {

// As the CPU engine does: blocks of several values are multiplied as int8.
bool is_quantized(std::string_view type) {
  const auto named = kernels::dtype_named(type);
  return named && kernels::block_shape(*named).values > 1;
}

}  // namespace

std::vector<measure::Engine> engines_of(const probe::HardwareReport& report, const config::Config& config) {
  std::vector<measure::Engine> engines{measure::processor(report.cpu, std::time(nullptr))};
  const auto ids = probe::opened_devices(report, config.devices);
  for (const config::EngineKind& kind : config::kEngineKinds)
    if (auto engine = measure::gpu_engine(std::string(kind.id), report.devices[kind], ids[kind]))
      engines.push_back(std::move(*engine));
  return engines;
}

measure::ModelSize size_of(const model::ModelFile& file) {
  return {file.weight_bytes(), file.token_weight_bytes(), file.parameter_count(), file.config().n_experts > 0,
          is_quantized(file.main_quantization())};
}

measure::ModelSizes sizes_of(std::span<const config::ModelEntry> models, const probe::ModelFileInfos& files) {
  measure::ModelSizes out;
  for (const config::ModelEntry& model : models) {
    if (const auto it = files.find(model.id); it != files.end()) {
      const BackendInfo& info = it->second;
      out[model.id] = {info.weight_bytes, info.token_weight_bytes, info.parameters, info.mixture_of_experts,
                       is_quantized(info.quantization)};
    }
  }
  return out;
}

std::vector<std::string> unmeasured_on(const measure::Book& measured, const std::string& model,
                                       std::span<const measure::Engine> engines) {
  std::vector<std::string> out;
  for (const measure::Engine& engine : engines)
    if (!measured.is_measured(model, engine.backend, std::time(nullptr))) out.push_back(engine.backend);
  return out;
}

Result<measure::Book> measured_book(const config::Config& config, std::span<const measure::Engine> engines,
                                    measure::BookOptions options) {
  const auto state_dir = config.state_dir.empty() ? settings::default_state_dir() : config.state_dir;
  std::error_code ignored;
  const auto file = store::file_in(state_dir);
  if (state_dir.empty() || !std::filesystem::exists(file, ignored))
    return measure::Book({}, engines, config.models, std::move(options));
  auto database = store::Database::open(file, store::Database::Access::read_only);
  if (!database) return pass(database);
  const auto measured = measure::load(*database, std::time(nullptr));
  if (!measured) return pass(measured);
  if (!options.ledger) {
    auto ledger = measure::load_ledger(*database);
    if (!ledger) return pass(ledger);
    options.ledger = std::make_shared<measure::PredictionLedger>(std::move(*ledger));
  }
  return measure::Book(*measured, engines, config.models, std::move(options));
}

}  // namespace flyball::calibrate
