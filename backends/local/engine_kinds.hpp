// The functions of each engine kind: one row for each row of config/engine_kinds.hpp, in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device/executor.hpp"
#include "backends/device_report.hpp"
#include "backends/graph/footprint.hpp"
#include "backends/graph/layer_split.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/local/local_backend.hpp"
#include "backends/model/model_file.hpp"
#include "config/engine_kinds.hpp"

namespace flyball::local {

struct OpenRequest {
  const LocalBackendOptions& options;
  std::shared_ptr<const model::ModelFile> model;
  std::uint32_t step_tokens = 0;     // most of a step
  std::uint32_t context = 0;         // tokens of the longest sequence
  std::uint64_t least_kv_bytes = 0;  // of the cache that was asked for, or of one sequence's
};
struct OpenedDevice {
  std::unique_ptr<device::Executor> executor;
  graph::KvRoom kv_room;         // once the weights are in
  std::uint32_t logit_rows = 0;  // of a step that may be wanted
};

// The best rates of one device: bytes read and f32 operations (a multiply-add is two), a second.
struct DeviceRates {
  double read = 0, multiply_add = 0;
};

struct EngineFunctions {
  const config::EngineKind& kind;
  // Bytes that the engine will hold of a model, by the file's directory alone.
  graph::MemoryPlan (*footprint)(const model::ModelFile&, const LocalBackendOptions&,
                                 const graph::FootprintShape&);
  Result<OpenedDevice> (*open)(const OpenRequest&);
  // Reports the devices; returns why none could be asked, "" if they could. nullptr, as is measure_rates: the
  // kind has no devices. Drivers may crash or hang in here: only for a child process.
  std::string (*probe)(const ProbeRun&);
  // Measures each device that the options name: some 0.3 s, and 256 MiB of its memory. model_unavailable,
  // model_unsupported, insufficient_memory, device_lost.
  Result<std::vector<DeviceRates>> (*measure_rates)(const LocalBackendOptions&);
};

// nullptr: this build has no such engine.
const EngineFunctions* find_engine(std::string_view id) noexcept;

// Bytes that packed experts may take: as the options say, or three quarters of the room beside the other
// weights, of `memory_capacity` or else of the memory free now; at least one layer's. 0: no mixture, or
// another engine than the CPU's.
std::uint64_t expert_bytes_limit(const model::ModelFile& model, const LocalBackendOptions& options);

}  // namespace flyball::local
