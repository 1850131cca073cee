#include "tests/bench/simulation/machine.hpp"

#include <algorithm>

namespace flyball::simulation {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30U;

// A desktop's 16 cores with AVX-512 VNNI and two channels of DDR5-5200 (83 GB/s by the data sheet, 65 in
// use). llama.cpp computes some 130 prompt tokens a second of such a model there: 130 x 2 x 8.03e9
// operations.
EngineSpec desktop_cpu() {
  return {.id = "cpu",
          .target = "cpu",
          .operations = 2.1e12,
          .attention = 0.9e12,
          .bandwidth = 65e9,
          .overhead = 0.4e-3,
          .load_seconds = 4};
}

// A laptop's 8 cores beside its integrated GPU, on the same DDR5-5600 (90 GB/s by the data sheet).
EngineSpec laptop_cpu() {
  return {.id = "cpu",
          .target = "cpu",
          .operations = 1.1e12,
          .attention = 0.5e12,
          .bandwidth = 55e9,
          .overhead = 0.5e-3,
          .load_seconds = 5};
}

// An RDNA 3 integrated GPU with 12 compute units: 16.6 Tflop/s in f16 by the data sheet, of which llama.cpp's
// Vulkan engine reaches about a fifth in prefill (220 tokens a second), and 70 of 90 GB/s.
EngineSpec integrated_gpu() {
  return {.id = "vulkan",
          .target = "vulkan",
          .operations = 3.5e12,
          .attention = 1.4e12,
          .bandwidth = 70e9,
          .overhead = 1.5e-3,
          .load_seconds = 6};
}

// A desktop GPU with 16 GB at 288 GB/s and 22 Tflop/s in f32 (RTX 4060 Ti): some 2,400 prompt tokens a second
// and 48 tokens a second for one stream.
EngineSpec desktop_gpu() {
  return {.id = "opencl",
          .target = "opencl",
          .operations = 38e12,
          .attention = 14e12,
          .bandwidth = 250e9,
          .overhead = 0.8e-3,
          .load_seconds = 5,
          .pool = 1};
}

DeviceReport gpu(const char* name, int nth, const char* vendor, const char* kind,
                 std::uint64_t memory_bytes) {
  DeviceReport report;
  report.id = device_id(name, nth, vendor);
  report.name = name;
  report.vendor = vendor;
  report.kind = kind;
  report.memory_bytes = memory_bytes;
  report.unified = report.kind == "integrated";
  report.dispatched = true;
  return report;
}
DeviceReport desktop_card(int nth) {
  return gpu("NVIDIA GeForce RTX 4060 Ti", nth, "nvidia", "discrete", 16 * kGiB);
}

}  // namespace

BackendInfo file_of(const ModelSpec& model) {
  BackendInfo info;
  info.architecture = "llama";
  info.quantization = "Q4_0";
  info.parameters = static_cast<std::uint64_t>(model.parameters);
  info.context_length = model.context;
  info.weight_bytes = static_cast<std::uint64_t>(model.weight_bytes);
  info.token_weight_bytes = info.weight_bytes;
  info.kv_token_bytes = static_cast<std::uint64_t>(model.kv_bytes_per_token);
  return info;
}

std::vector<MachineSpec> machines() {
  std::vector<MachineSpec> out;
  out.push_back({.id = "cpu",
                 .what = "a desktop's 16 cores",
                 .engines = {desktop_cpu()},
                 .pools = {{"machine", 48 * kGiB}},
                 .slowed = {{1}},
                 .shares = {1.0 / 2048, 1.0 / 1024, 1.0 / 512, 1.0 / 256, 1.0 / 128},
                 .cores = 16});
  // Both engines read the same memory and share its power: either slows the other.
  out.push_back({.id = "apu",
                 .what = "an integrated GPU (Vulkan) and its 8 cores",
                 .engines = {integrated_gpu(), laptop_cpu()},
                 .pools = {{"machine", 56 * kGiB}},
                 .slowed = {{1, 1.35}, {1.6, 1}},
                 .shares = {1.0 / 2048, 1.0 / 1024, 1.0 / 512, 1.0 / 256, 1.0 / 128},
                 .cores = 8,
                 .gpus = {gpu("AMD Radeon 780M", 0, "amd", "integrated", 28 * kGiB)}});
  // The GPU's driver thread takes one core of 16, and loses a little to threads that keep all cores busy.
  out.push_back({.id = "gpu",
                 .what = "a desktop GPU (OpenCL) and 16 cores",
                 .engines = {desktop_gpu(), desktop_cpu()},
                 .pools = {{"machine", 48 * kGiB}, {"gpu", 15 * kGiB}},
                 .slowed = {{1, 1.03}, {1.07, 1}},
                 .shares = {1.0 / 512, 1.0 / 256, 1.0 / 128, 1.0 / 64, 1.0 / 32},
                 .cores = 16,
                 .gpus = {desktop_card(0)}});
  return out;
}

MachineSpec two_gpu_machine() {
  EngineSpec second = desktop_gpu();
  second.id = second.target = "vulkan";
  second.overhead = 1.2e-3;  // one submission more for each step than by OpenCL
  second.pool = 2;
  return {.id = "gpus",
          .what = "two desktop GPUs (OpenCL on one, Vulkan on the other) and 16 cores",
          .engines = {desktop_gpu(), second, desktop_cpu()},
          .pools = {{"machine", 48 * kGiB}, {"gpu", 15 * kGiB}, {"gpu 2", 15 * kGiB}},
          .slowed = {{1, 1, 1.03}, {1, 1, 1.03}, {1.07, 1.07, 1}},
          .shares = {},
          .cores = 16,
          .gpus = {desktop_card(0), desktop_card(1)}};
}

// Its threads have the lowest priority, and stand still while people's answers are computed on the cores. To
// the shared engine it costs some of the caches and of the memory's rate, and it has next to nothing beside
// that one's work. The GPU's driver thread comes before it: it slows the GPU as the shared engine does.
MachineSpec with_aside(MachineSpec machine) {
  const auto cpu = std::ranges::find(machine.engines, "cpu", &EngineSpec::target);
  const auto nth = static_cast<std::size_t>(cpu - machine.engines.begin());
  EngineSpec aside = *cpu;
  aside.id = "aside";
  aside.target = "cpu:aside";
  aside.yields = true;
  std::vector<double> as_cpu = machine.slowed[nth];
  for (std::size_t i = 0; i < machine.engines.size(); ++i)
    machine.slowed[i].push_back(i == nth ? 1.05 : machine.slowed[i][nth]);
  as_cpu[nth] = 20;
  as_cpu.push_back(1);
  machine.slowed.push_back(std::move(as_cpu));
  machine.engines.push_back(std::move(aside));
  return machine;
}

predict::DeviceGroups device_groups_of(const MachineSpec& machine) {
  predict::DeviceGroups groups(machine.pools.size() - 1);
  for (const EngineSpec& engine : machine.engines)
    if (engine.pool > 0) groups[engine.pool - 1].push_back(engine.target);
  return groups;
}

double step_seconds(const EngineSpec& engine, const ModelSpec& model, const engine::StepPlan& plan) {
  double positions = 0;  // whose KV is read
  for (const engine::PlannedSequence& part : plan.sequences) positions += part.first_position + part.n_tokens;
  const double products = 2 * model.parameters * plan.work.tokens / engine.operations;
  const double weights = model.weight_bytes / engine.bandwidth;
  const double attention =
      std::max(model.operations_per_pair * static_cast<double>(plan.work.pairs) / engine.attention,
               model.kv_bytes_per_token * positions / engine.bandwidth);
  return engine.overhead + std::max(products, weights) + attention;
}

}  // namespace flyball::simulation
