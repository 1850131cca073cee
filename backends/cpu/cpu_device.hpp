// The CPU engine's device: packs the weights for this processor's ISA once, owns the thread pool and the KV
// bytes, and runs the decoder's ops as fork-join over row ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backends/device/executor.hpp"
#include "backends/graph/kernel_times.hpp"
#include "backends/graph/load_progress.hpp"
#include "backends/model/model_file.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

struct CpuDeviceOptions {
  std::uint32_t threads = 0;             // 0: one per core this process may use
  std::optional<kernels::cpu::Isa> isa;  // best_isa() if absent; unsupported_value if this machine lacks it
  std::uint32_t max_step_tokens = 512;   // rows of one step
  std::uint32_t max_logit_rows = 16;     // rows of one step whose logits may be wanted: sequences at once
  // A mixture's experts, packed; beyond it they are packed when needed. 0: three quarters of what is free.
  std::uint64_t expert_bytes_limit = 0;
  graph::LoadProgress progress;
  graph::KernelTimes* times = nullptr;  // not null: kernels are timed into it; it outlives the executor
};

// insufficient_memory, unsupported_value. The model must outlive the executor: rows of the embedding table,
// and weights that the ISA reads as they are, stay in the file.
Result<std::unique_ptr<device::Executor>> make_cpu_executor(const model::ModelFile& model,
                                                            const CpuDeviceOptions& options);

}  // namespace flyball::cpu
