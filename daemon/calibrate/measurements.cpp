#include "daemon/calibrate/measurements.hpp"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "backends/device/memory.hpp"
#include "daemon/measure/measured_store.hpp"
#include "daemon/measure/outcomes.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/route/facts.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/store/database.hpp"

namespace flyball::calibrate {
namespace {

// As the CPU engine does: blocks of several values are multiplied as int8.
bool is_quantized(std::string_view type) {
  const auto named = kernels::dtype_named(type);
  return named && kernels::block_shape(*named).values > 1;
}

// Bytes of KV for every sequence with a full context, at most what the governor grants: a quarter of the
// machine's memory that the weights leave (Governor::grant). 0: not known.
std::uint64_t kv_bytes_of(const config::ModelEntry& model, const BackendInfo& info) {
  const std::uint64_t context = route::served_context(model, &info);
  const std::uint64_t one = flyball::kv_bytes_of(info, model.kv_type, context);
  const std::uint64_t memory = device::total_memory();
  const std::uint64_t most = memory > 0 ? (memory - std::min(memory, info.weight_bytes)) / 4 : UINT64_MAX;
  return std::max(one, std::min(one * model.max_sequences, most));
}

measure::ModelSize size_by(const config::ModelEntry& model, const BackendInfo& info) {
  return {info.weight_bytes,       info.token_weight_bytes,         info.parameters,
          info.mixture_of_experts, is_quantized(info.quantization), kv_bytes_of(model, info)};
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

measure::ModelSize size_of(const config::ModelEntry& model, const model::ModelFile& file) {
  return size_by(model, probe::info_of(file));
}

measure::ModelSizes sizes_of(std::span<const config::ModelEntry> models, const probe::ModelFileInfos& files) {
  measure::ModelSizes out;
  for (const config::ModelEntry& model : models) {
    if (const auto it = files.find(model.id); it != files.end()) out[model.id] = size_by(model, it->second);
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

measure::Book unmeasured_book(const config::Config& config, std::span<const measure::Engine> engines,
                              measure::BookOptions options) {
  return measure::Book({}, engines, config.models, std::move(options));
}

Result<measure::Book> measured_book(const config::Config& config, std::span<const measure::Engine> engines,
                                    measure::BookOptions options) {
  const auto state_dir = config.state_dir.empty() ? settings::default_state_dir() : config.state_dir;
  std::error_code ignored;
  const auto file = store::file_in(state_dir);
  if (state_dir.empty() || !std::filesystem::exists(file, ignored))
    return unmeasured_book(config, engines, std::move(options));
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
