// One model on one engine of this machine, or what the engine's devices can do, measured in a process of its
// own (`flyball measure`): a driver that crashes ends that alone, and it can be given up at any time. The
// process is told all that it goes by; it reads no configuration.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <vector>

#include "backends/memory_need.hpp"
#include "backends/worker/client.hpp"
#include "config/config.hpp"
#include "daemon/measure/figures.hpp"
#include "daemon/measure/subject.hpp"

namespace flyball::calibrate {

// Of whom it has its memory. Both are called on the thread that waits for the process.
struct MeasuringMemory {
  std::function<Result<std::uint64_t>(const MemoryNeed&)> ask;  // before it loads: the bytes of its KV cache
  std::function<void(std::uint64_t bytes)> holds;               // then
};

struct Measuring {
  worker::WorkerOptions engine;  // without a model's id: its devices alone, vulkan's or opencl's
  bool quick = false;            // fewer lengths and streams, each once
  // It runs beside a daemon's work, and asks for its memory. Else it takes what it finds.
  std::optional<MeasuringMemory> memory = {};
};

// As a daemon with this configuration starts this engine. model: nullptr: its devices alone.
Measuring measuring_of(const config::Config& config, const config::ModelEntry* model,
                       const measure::Engine& engine, bool own_memory);

// Blocks. What the engine, or `memory`, refused with; model_unavailable: its process ended, took longer than
// an hour or gave no figures, or the model's file is another than `subject` says; cancelled: `stop` was asked
// for, and the process is gone. It has the processors as an engine does, whose figures these are to be: one
// that begins while nothing is asked ends as soon as something is.
Result<std::vector<measure::Figure>> measure_in_child(const Measuring& measuring,
                                                      const measure::Subject& subject,
                                                      const std::stop_token& stop = {});

}  // namespace flyball::calibrate
