// Which sequences the next step computes, and how many tokens of each: continuous batching with chunked
// prefill beside decode under one token budget, preemption by recompute, cancellation and pause at any point.
// A pure state machine: no thread, no clock, no device, no token values. plan() -> run it -> commit() or
// abort().
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backends/kv/kv_accountant.hpp"
#include "config/error.hpp"

namespace flyball::engine {

using kv::SequenceId;

struct SchedulerLimits {
  std::uint32_t step_tokens = 256;  // tokens of one step; raised to max_sequences so that decode always fits
  std::uint32_t max_sequences = 8;  // that hold KV at once
  std::uint32_t max_waiting = 256;  // beyond it submit() gives `overloaded`
  std::uint32_t kv_blocks = 0;
  std::uint32_t block_size = 16;
};

// `n_tokens` known tokens of one sequence, from position `first_position` on.
struct PlannedSequence {
  SequenceId id = 0;
  std::uint32_t first_position = 0;
  std::uint32_t n_tokens = 0;
  bool want_logits = false;  // the last of them is the last known one: the step yields a new token
};

struct StepPlan {
  std::vector<PlannedSequence> sequences;  // decodes first, then prefill chunks, each in order of arrival
  std::uint32_t n_tokens = 0;
  bool empty() const noexcept { return sequences.empty(); }
};

// What became of one planned sequence with want_logits. A sequence without a result keeps what it computed.
struct StepResult {
  SequenceId id = 0;
  bool ended = false;  // finished or failed by itself; otherwise one token was appended
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // A sequence with `known` tokens (> 0) that may grow to `most` tokens. Ids must rise: they are the order of
  // arrival. overloaded; insufficient_memory when it could not finish even alone.
  Result<void> submit(SequenceId id, std::uint32_t known, std::uint32_t most);
  // Ends it: at once, or when the step in flight that computes it is over. Unknown ids are fine (it ended
  // already).
  void cancel(SequenceId id);
  // A paused sequence is not planned. It keeps its KV until another one needs the room.
  void pause(SequenceId id);
  void resume(SequenceId id);

  // The next step; empty when there is nothing to do. Precondition: no step in flight.
  // most: tokens it may hold, never more than step_tokens, and raised to max_sequences so that every decode
  // fits and a prompt advances beside them.
  StepPlan plan(std::uint32_t most);
  StepPlan plan() { return plan(limits_.step_tokens); }
  // The step in flight has run. Results name sequences planned with want_logits that were not cancelled
  // meanwhile.
  void commit(std::span<const StepResult> results);
  // The step in flight failed: every sequence in it ends. Returns those that were not cancelled meanwhile.
  std::vector<SequenceId> abort();

  bool contains(SequenceId id) const { return entries_.contains(id); }  // false also once cancelled
  std::uint32_t waiting() const noexcept;
  std::uint32_t running() const noexcept { return n_admitted_; }
  std::uint64_t preemptions() const noexcept { return preemptions_; }
  const kv::KvAccountant& kv() const noexcept { return kv_; }
  // Books balance, and every count agrees with the entries. For tests and idle moments.
  bool balanced() const;

 private:
  struct Entry {
    std::uint32_t known = 0;     // tokens whose values are known
    std::uint32_t computed = 0;  // tokens whose KV is in the cache; < known
    std::uint32_t most = 0;
    bool admitted = false;  // holds a slot and KV
    bool paused = false;
    bool in_step = false;
    std::uint32_t step_tokens = 0;  // of the step in flight
  };
  using Entries = std::map<SequenceId, Entry>;

  // Makes `entry` cover `positions`, preempting paused sequences, then later arrivals. False: it has to wait.
  bool make_room(Entries::iterator entry, std::uint32_t positions);
  void preempt(Entries::iterator entry);
  bool admit(Entries::iterator entry);
  void plan_tokens(Entries::iterator entry, std::uint32_t n_tokens, StepPlan& plan);
  void end(Entries::iterator entry);

  SchedulerLimits limits_;
  kv::KvAccountant kv_;
  Entries entries_;                    // by arrival
  std::vector<SequenceId> cancelled_;  // in the step in flight; their KV is freed when it is over
  std::uint32_t n_admitted_ = 0;
  std::uint64_t preemptions_ = 0;
  bool in_flight_ = false;
};

}  // namespace flyball::engine
