// A Backend in this process: one engine thread that owns scheduler, KV books and device, and one thread that
// prepares prompts (template, tokenizer) so that neither waits for the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/engine/step_trace.hpp"
#include "backends/memory_need.hpp"
#include "backends/opencl/options.hpp"
#include "backends/spill/spill_store.hpp"
#include "backends/vulkan/options.hpp"
#include "config/engine_kinds.hpp"
#include "config/error.hpp"

namespace flyball::local {

// KV kept on disk beyond this process (backends/spill).
struct SpillSettings {
  std::filesystem::path directory;                   // for this user alone
  std::uint64_t max_bytes = 0;                       // of all engines together; 0: none is kept
  std::chrono::milliseconds after{2'000};            // without work
  std::uint32_t least_tokens = 256;                  // shorter prompts are computed again
  std::function<int(spill::Call)> interceptor = {};  // spill::StoreOptions
};

struct LocalBackendOptions {
  std::string model_id;
  std::filesystem::path path;  // "" means the embedded demo model
  std::string sha256;          // "" or what the model at `path` must hash to (model::ModelFile::open)
  std::string backend{config::kCpu.id};  // an engine kind; others: unsupported_value
  std::uint32_t threads = 0;             // cpu: 0 is one per core
  std::uint64_t expert_bytes = 0;  // cpu: for a mixture's packed experts; 0: three quarters of what is free
  std::uint32_t context = 0;       // tokens per sequence; 0: the model's own, at most 4096
  std::uint32_t max_sequences = 8;
  std::uint32_t kv_blocks = 0;       // 0: enough for max_sequences full contexts, bounded by kv_bytes_limit
  std::uint64_t kv_bytes_limit = 0;  // 0: a quarter of MemAvailable
  std::string kv_type = "f16";       // or "q8_0" (graph::kv_type); others: unsupported_value
  std::uint32_t step_tokens = 256;   // most tokens of a step; fewer where they would take long (StepBudget)
  // Which devices, and their limits: at least one. Over several the model's layers are split.
  std::vector<opencl::DeviceOptions> opencl = std::vector<opencl::DeviceOptions>(1);
  vulkan::DeviceOptions vulkan;     // which device, and its limits
  std::filesystem::path cache_dir;  // compiled kernels and tunings; "": compiled at every start, untuned
  SpillSettings spill;
  // Of what is worked around, one sentence; while loading, and later of spilling on threads of the engine's
  // own.
  std::function<void(const std::string&)> warn;
  graph::LoadProgress progress;
  engine::StepObserver observer;
  // Asked before anything is loaded, with what predict_memory says; waits for room and gives the bytes that
  // the KV cache may have. Absent: what is free decides.
  std::function<std::uint64_t(const MemoryNeed&)> ask_memory;
  bool yields = false;       // Backend::hold() stops any step, not only those that may be stopped anyway
  bool lock_memory = false;  // weights and KV stay in memory; where they cannot, `warn` says why
  bool own_memory = false;  // for that: the devices have memory apart from the machine's
  // What engines may hold of the machine's memory together: a mixture's experts are as many as it has room
  // for, and others end for them. 0: what is free now decides.
  std::uint64_t memory_capacity = 0;
  graph::KernelTimes* kernel_times =
      nullptr;                    // not null: every kernel's time is added there; outlives the backend
  std::uint32_t max_queue = 256;  // waiting requests; beyond it start() gives `overloaded`
};

Result<std::unique_ptr<Backend>> make_local_backend(const LocalBackendOptions& options);

}  // namespace flyball::local
