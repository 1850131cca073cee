// One model resident on one device. The scheduler decides what a step holds; an executor runs it.
// Owned and called by the engine thread alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/decode/candidates.hpp"
#include "backends/graph/memory_plan.hpp"
#include "config/error.hpp"

namespace flyball::device {

using StepId = std::uint64_t;
using BlockId = std::uint32_t;

// n_tokens new tokens of one sequence at positions [first_position, first_position + n_tokens).
struct StepSequence {
  std::uint32_t first_token = 0;  // index into StepBatch::tokens
  std::uint32_t n_tokens = 0;
  std::uint32_t first_position = 0;
  std::span<const BlockId> block_table;  // covers first_position + n_tokens positions
  std::uint32_t n_wanted = 0;            // last tokens whose logits are wanted: all, where n_candidates is 0
  std::uint32_t n_candidates = 0;  // else so many of the likeliest; <= max_candidates() and the vocabulary
  bool want_exp_sum = false;       // and what their probabilities need
};

struct StepBatch {
  std::span<const Token> tokens;  // all sequences' new tokens, one sequence after the other
  std::span<const StepSequence> sequences;
  std::uint32_t candidates_of = 0;  // candidates are tokens below this; 0: of the whole vocabulary
  // Not null: once it is true, a device that can_stop() gives up the step with `cancelled`. Its copies are
  // done; what it wrote for its tokens is void.
  const std::atomic<bool>* stop = nullptr;
};

// What was wanted, in order of sequence; valid until the next submit.
struct StepOutput {
  std::span<const float> logits;  // [rows wanted whole, vocab_size]
  std::span<const decode::Candidates> candidates;
};

struct BlockCopy {  // copy-on-write: done before the step, in order
  BlockId from = 0, to = 0;
};

// The bytes of a block: [keys, values][layer][kv head] pages, block_bytes() in all.
struct BlockRead {
  BlockId block = 0;
  std::span<std::byte> to;
};
struct BlockWrite {
  BlockId block = 0;
  std::span<const std::byte> from;
};

struct Executor {
  virtual ~Executor() = default;
  virtual graph::MemoryPlan memory() const = 0;
  // Weights and KV in the process's own memory, those read in a mapped file included. Empty: they lie with a
  // driver. Valid while the executor lives.
  virtual std::vector<std::span<const std::byte>> held_memory() const { return {}; }
  // Which device holds what of it, in order of layers. Empty: the machine's own processors.
  virtual std::vector<DeviceShare> shares() const { return {}; }
  // Where one device may compute in several ways: which, and all of a context goes that way.
  virtual std::string arithmetic() const { return {}; }
  // Once, before the first step. insufficient_memory with needed and free bytes.
  virtual Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) = 0;
  // Returns at once where the device runs by itself, unless the step may be stopped or other devices come
  // before the last one: then when all but its last layers have run. At most max_step_tokens() tokens.
  virtual Result<StepId> submit(const StepBatch& batch, std::span<const BlockCopy> copies) = 0;
  // numeric_error, device_lost.
  virtual Result<StepOutput> wait(StepId step) = 0;
  virtual std::uint32_t max_step_tokens() const = 0;
  // Most candidates a row may ask for. 0: logits are computed in the host's own memory, where whole rows cost
  // nothing to hand over, and candidates cannot be asked for.
  virtual std::uint32_t max_candidates() const { return 0; }
  // KV on its way out of the device's memory, and back. Between steps alone; done when they return.
  // device_lost. 0 bytes: this device cannot.
  virtual std::uint64_t block_bytes() const { return 0; }
  virtual Result<void> read_blocks(std::span<const BlockRead>) { return cannot_move_blocks(); }
  virtual Result<void> write_blocks(std::span<const BlockWrite>) { return cannot_move_blocks(); }
  virtual bool can_stop() const noexcept { return false; }  // within a layer or two, not only between steps

 private:
  static Result<void> cannot_move_blocks() {
    return fail(ErrorCode::unsupported_value, "This device's KV blocks cannot be moved.");
  }
};

}  // namespace flyball::device
