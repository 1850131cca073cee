// The simulated machines: engines of one 8B model, what their steps cost, and how they slow each other. The
// router never sees these figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/device_report.hpp"
#include "backends/engine/scheduler.hpp"
#include "daemon/predict/predictor.hpp"

namespace flyball::simulation {

// Llama 3 8B with 4-bit weights: 32 layers, 32 heads of 128, 8 KV heads, KV in f16.
struct ModelSpec {
  double parameters = 8.03e9;
  double weight_bytes = 4.9e9;
  double kv_bytes_per_token = 2.0 * 32 * 8 * 128 * 2;  // keys and values
  double operations_per_pair = 4.0 * 32 * 32 * 128;    // q k and p v, a multiply-add is two
  std::uint64_t scratch_bytes = 400ULL << 20U;
  std::uint32_t layers = 32;
  std::uint32_t context = 40'960;  // the longest prompt and the longest answer
};

// The model's file, in its own words.
BackendInfo file_of(const ModelSpec& model);

struct EngineSpec {
  std::string id;
  std::string target;       // the engine kind as which the daemon knows it, or "cpu:aside"
  double operations = 0;    // a second in matrix products, as achieved in prefill
  double attention = 0;     // operations a second in attention over long contexts
  double bandwidth = 0;     // bytes a second, as achieved in decode
  double overhead = 0;      // seconds of every step: launches, sampling, delivery
  double load_seconds = 0;  // a cold start until the engine takes requests
  std::size_t pool = 0;     // of the machine's memory pools
  bool yields = false;      // an engine of its own that computes while no person's answer is computed there
};

struct PoolSpec {
  std::string name;
  std::uint64_t bytes = 0;
};

struct MachineSpec {
  std::string id, what;
  std::vector<EngineSpec> engines;  // fastest first, as a policy would list them
  std::vector<PoolSpec> pools;      // the machine's own first
  // slowed[i][j]: how many times as long a step of engine i takes while engine j is in a step.
  std::vector<std::vector<double>> slowed;
  std::vector<double> shares;  // of the recorded load, rising
  std::uint32_t cores = 0;
  std::vector<DeviceReport> gpus = {};  // as every API reports them
  bool has_discrete_gpu() const { return !gpus.empty() && gpus.front().kind == "discrete"; }
};
std::vector<MachineSpec> machines();
// The desktop with a second card of the same make, which the Vulkan engine opens. It has no shares of a
// recorded load.
MachineSpec two_gpu_machine();
// The machine with the engine that the shipped profile `aside` has on its processor, behind the others.
MachineSpec with_aside(MachineSpec machine);

// The engine kinds of each pool of GPU memory open the GPU that has it. An integrated GPU is opened by one
// engine alone.
predict::DeviceGroups device_groups_of(const MachineSpec& machine);

// Seconds of one step by itself, without noise: overhead, then weights or products, whichever takes longer,
// then the KV that is read and the attention over it.
double step_seconds(const EngineSpec& engine, const ModelSpec& model, const engine::StepPlan& plan);

}  // namespace flyball::simulation
