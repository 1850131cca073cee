// A Backend over any Executor: the engine thread (commands -> scheduler -> executor -> sampler -> text ->
// client) and the two preparation threads (template, tokenizer). Devices, real and fake, meet the house here.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/backend.hpp"
#include "backends/device/executor.hpp"
#include "backends/engine/prepare.hpp"
#include "backends/engine/scheduler.hpp"
#include "backends/engine/step_trace.hpp"
#include "backends/spill/kv_spill.hpp"

namespace flyball::engine {

struct EngineParts {
  BackendInfo info;
  std::shared_ptr<const void> model;           // whatever the executor reads from; destroyed last
  std::unique_ptr<device::Executor> executor;  // its KV is reserved: limits.kv_blocks of limits.block_size
  TextModel text;
  std::uint32_t logits_per_row = 0;  // values in a row of StepOutput::logits; >= text.vocab_size
  SchedulerLimits limits;
  // Absent: KV is kept in the device's memory alone. Precondition: limits.keyed, and executor->block_bytes()
  // is what it was made for.
  std::unique_ptr<spill::KvSpill> spill;
  std::chrono::milliseconds spill_after{2'000};  // of an engine without work
  StepObserver observer;
  bool yields = false;  // any step is given up when the engine is held, where the device can
};

// Destruction ends what runs with `shutting_down` and joins the threads. drain() blocks until all have ended,
// at the latest shortly after its deadline, and then spills what is kept, if anything spills.
std::unique_ptr<Backend> make_engine_backend(EngineParts parts);

}  // namespace flyball::engine
