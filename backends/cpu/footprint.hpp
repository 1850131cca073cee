// What the CPU engine will hold of a model.
#pragma once

#include "backends/graph/footprint.hpp"
#include "backends/model/model_file.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

// Weights as CpuWeights packs them, the experts' slots of ExpertCache, KV and scratch as CpuOps lays them
// out.
graph::MemoryPlan footprint(const model::ModelFile& model, const kernels::cpu::Kernels& kernels,
                            const graph::FootprintShape& shape) noexcept;

// Of a mixture's experts on the CPU; 0, 0: a dense model.
struct ExpertBytes {
  std::uint64_t all = 0;
  std::uint64_t one_layer = 0;  // below this the engine does not start
};
ExpertBytes expert_bytes(const model::ModelFile& model, const kernels::cpu::Kernels& kernels) noexcept;

}  // namespace flyball::cpu
