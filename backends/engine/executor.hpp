// One model resident on one device. The scheduler decides what a step holds; an executor runs it.
// Owned and called by the engine thread alone.
#pragma once

#include <cstdint>
#include <span>

#include "backends/backend.hpp"
#include "backends/graph/memory_plan.hpp"
#include "config/error.hpp"

namespace flyball::engine {

using StepId = std::uint64_t;
using BlockId = std::uint32_t;

// n_tokens new tokens of one sequence at positions [first_position, first_position + n_tokens).
struct StepSequence {
  std::uint32_t first_token = 0;  // index into StepBatch::tokens
  std::uint32_t n_tokens = 0;
  std::uint32_t first_position = 0;
  std::span<const BlockId> block_table;  // covers first_position + n_tokens positions
  bool want_logits = false;              // of the last token: a row in wait()'s result, in order of sequence
};

struct StepBatch {
  std::span<const Token> tokens;  // all sequences' new tokens, one sequence after the other
  std::span<const StepSequence> sequences;
};

struct BlockCopy {  // copy-on-write: done before the step, in order
  BlockId from = 0, to = 0;
};

struct Executor {
  virtual ~Executor() = default;
  virtual graph::MemoryPlan memory() const = 0;
  // Once, before the first step. insufficient_memory with needed and free bytes.
  virtual Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) = 0;
  // Returns at once where the device runs by itself. At most max_step_tokens() tokens.
  virtual Result<StepId> submit(const StepBatch& batch, std::span<const BlockCopy> copies) = 0;
  // Logits [rows wanted, vocab_size], valid until the next submit. numeric_error, device_lost.
  virtual Result<std::span<const float>> wait(StepId step) = 0;
  virtual std::uint32_t max_step_tokens() const = 0;
};

}  // namespace flyball::engine
