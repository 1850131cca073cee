#include "backends/engine/scheduler.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace flyball::engine {
namespace {

void require(bool invariant) {
  if (!invariant) std::abort();
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits), kv_(limits.kv_blocks, limits.block_size) {
  require(limits.max_sequences > 0);
  limits_.step_tokens = std::max(limits_.step_tokens, limits_.max_sequences);
}

Result<void> Scheduler::submit(SequenceId id, std::uint32_t known, std::uint32_t most) {
  require(known > 0 && known <= most && (entries_.empty() || entries_.rbegin()->first < id));
  // Asked first, because waiting does not help. The last token sampled is never computed, but a preempted
  // sequence computes all it knows in one go.
  const std::uint32_t needed = kv_.blocks_for(most);
  if (needed > kv_.total())
    return fail(ErrorCode::insufficient_memory, "The request may grow to " + std::to_string(most) +
                                                    " tokens and needs " + std::to_string(needed) +
                                                    " KV blocks; the engine has " +
                                                    std::to_string(kv_.total()) + ".");
  if (waiting() >= limits_.max_waiting + (limits_.max_sequences - n_admitted_))
    return fail(ErrorCode::overloaded, "The engine's queue is full: " + std::to_string(waiting()) +
                                           " requests wait, the limit is " +
                                           std::to_string(limits_.max_waiting) + ".");
  Entry entry;
  entry.known = known;
  entry.most = most;
  entries_.emplace(id, entry);
  return {};
}

std::uint32_t Scheduler::waiting() const noexcept {
  return static_cast<std::uint32_t>(entries_.size()) - n_admitted_ +
         static_cast<std::uint32_t>(
             cancelled_.size());  // cancelled ones in flight keep their slot but have no entry
}

void Scheduler::cancel(SequenceId id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  if (it->second.in_step) {  // the device may be writing its blocks
    cancelled_.push_back(id);
    entries_.erase(it);
  } else {
    end(it);
  }
}

void Scheduler::pause(SequenceId id) {
  if (const auto it = entries_.find(id); it != entries_.end()) it->second.paused = true;
}

void Scheduler::resume(SequenceId id) {
  if (const auto it = entries_.find(id); it != entries_.end()) it->second.paused = false;
}

StepPlan Scheduler::plan(std::uint32_t most) {
  require(!in_flight_);
  most = std::clamp(most, limits_.max_sequences, limits_.step_tokens);
  StepPlan plan;
  plan.sequences.reserve(limits_.max_sequences);
  const auto budget = [&] { return most - plan.n_tokens; };

  // Decodes first: a running stream's next token never waits for another one's prompt. make_room may preempt
  // later arrivals, which are then no longer admitted when the loop comes to them.
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& e = it->second;
    if (e.admitted && !e.paused && e.known - e.computed == 1 && make_room(it, e.known))
      plan_tokens(it, 1, plan);
  }
  // Then prompts already begun, then new ones, first come first served.
  for (auto it = entries_.begin(); it != entries_.end() && budget() > 0; ++it) {
    const Entry& e = it->second;
    if (!e.admitted || e.paused || e.in_step) continue;
    const std::uint32_t n = std::min(e.known - e.computed, budget());
    if (make_room(it, e.computed + n)) plan_tokens(it, n, plan);
  }
  for (auto it = entries_.begin(); it != entries_.end() && budget() > 0; ++it) {
    const Entry& e = it->second;
    if (e.admitted || e.paused) continue;
    if (!admit(it)) break;  // nobody overtakes the first in the queue
    plan_tokens(it, std::min(e.known, budget()), plan);
  }
  in_flight_ = !plan.empty();
  return plan;
}

void Scheduler::plan_tokens(Entries::iterator it, std::uint32_t n_tokens, StepPlan& plan) {
  Entry& e = it->second;
  plan.sequences.push_back({it->first, e.computed, n_tokens, e.computed + n_tokens == e.known});
  plan.n_tokens += n_tokens;
  e.in_step = true;
  e.step_tokens = n_tokens;
}

// The earliest arrival is never a victim of a later one, and alone it fits (submit saw to that): it always
// advances, so every sequence ends.
bool Scheduler::make_room(Entries::iterator it, std::uint32_t positions) {
  while (!kv_.grow(it->first, positions)) {
    auto victim = entries_.end();
    for (auto other = entries_.begin(); other != entries_.end(); ++other) {
      const Entry& o = other->second;
      if (other == it || !o.admitted || o.in_step) continue;
      if (o.paused || (other->first > it->first && (victim == entries_.end() || !victim->second.paused)))
        victim = other;
    }
    if (victim == entries_.end()) return false;
    preempt(victim);
  }
  return true;
}

void Scheduler::preempt(Entries::iterator it) {
  kv_.release(it->first);
  it->second.admitted = false;
  it->second.computed = 0;
  --n_admitted_;
  ++preemptions_;
}

bool Scheduler::admit(Entries::iterator it) {
  // One spare block for each that runs: without it a newcomer would be preempted at the next block border.
  const auto paused_victim = [&] {
    for (auto other = entries_.rbegin(); other != entries_.rend(); ++other)
      if (other->second.admitted && other->second.paused && !other->second.in_step)
        return std::prev(other.base());
    return entries_.end();
  };
  while (n_admitted_ >= limits_.max_sequences ||
         kv_.blocks_missing(it->first, it->second.known) + n_admitted_ > kv_.free()) {
    if (n_admitted_ == 0) break;  // alone it always fits
    const auto victim = paused_victim();
    if (victim == entries_.end()) return false;
    preempt(victim);
  }
  if (!kv_.grow(it->first, it->second.known)) return false;
  it->second.admitted = true;
  ++n_admitted_;
  return true;
}

void Scheduler::end(Entries::iterator it) {
  kv_.release(it->first);
  if (it->second.admitted) --n_admitted_;
  entries_.erase(it);
}

void Scheduler::commit(std::span<const StepResult> results) {
  require(in_flight_);
  in_flight_ = false;
  for (const SequenceId id : cancelled_) {
    kv_.release(id);
    --n_admitted_;
  }
  cancelled_.clear();
  for (auto& [id, e] : entries_) {
    if (!e.in_step) continue;
    e.computed += e.step_tokens;
    e.in_step = false;
  }
  for (const StepResult& result : results) {
    const auto it = entries_.find(result.id);
    require(it != entries_.end() && it->second.computed == it->second.known);
    if (result.ended) {
      end(it);
    } else {
      ++it->second.known;
      require(it->second.known <= it->second.most);
    }
  }
}

std::vector<SequenceId> Scheduler::abort() {
  require(in_flight_);
  in_flight_ = false;
  for (const SequenceId id : cancelled_) {
    kv_.release(id);
    --n_admitted_;
  }
  cancelled_.clear();
  std::vector<SequenceId> ended;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto current = it++;
    if (!current->second.in_step) continue;
    ended.push_back(current->first);
    end(current);
  }
  return ended;
}

bool Scheduler::balanced() const {
  if (!kv_.balanced()) return false;
  auto admitted = static_cast<std::uint32_t>(cancelled_.size());
  for (const auto& [id, e] : entries_) {
    if (e.admitted) ++admitted;
    if (!e.admitted && (!kv_.table(id).empty() || e.computed != 0 || e.in_step)) return false;
    if (e.computed > e.known || e.known > e.most) return false;
    if (e.computed > kv_.table(id).size() * limits_.block_size) return false;
  }
  if (!in_flight_ && !cancelled_.empty()) return false;
  return admitted == n_admitted_ && n_admitted_ <= limits_.max_sequences;
}

}  // namespace flyball::engine
