// Which sequences the next step computes, and how many tokens of each: continuous batching with chunked
// prefill beside decode within a limit of time, shared prefixes computed once, preemption by recompute,
// cancellation and pause at any point. Fair among owners by the contract of backends/fairness.hpp. A pure
// state machine: no thread, no clock, no device. plan() -> run it -> commit() or abort().
//
// Settings act per sequence (config::RequestSettings):
// - step_budget: a step aims at no more than the strictest budget of the decodes in it and of the prompts
//   that it could compute; it aims at more than usual only where an arrival can stop it (step_budget.hpp).
// - place: prompts `ahead` come before `usual` ones, within a step and for a slot; but for a slot guests come
//   first. A step in four begins with the prompt skipped longest, and of those with the same right to a slot
//   one that three later ones have overtaken is next, so that neither waits for ever.
//   Sequences `behind`, prompts and decodes, add at most kBehindShare to the time of steps that hold others,
//   and have the steps in which nobody else is. They give up their slots for others, but for one of them, and
//   their room.
//
// Log probabilities of a prompt need the rows of logits of all its tokens but the last. A step has few rows:
// one is kept for each admitted sequence, and prompts share the others. Such a prompt takes no more tokens of
// a step than it has rows for, each of them costs a row more, and it takes over no KV of tokens whose rows it
// still wants.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/engine/step_budget.hpp"
#include "backends/fairness.hpp"
#include "backends/kv/kv_accountant.hpp"
#include "config/error.hpp"
#include "config/request_settings.hpp"

namespace flyball::engine {

using kv::SequenceId;

struct SchedulerLimits {
  std::uint32_t step_tokens = 256;  // tokens of one step; raised to max_sequences so that decode always fits
  std::uint32_t max_sequences = 8;  // that hold KV at once
  std::uint32_t logit_rows = 0;     // of a step; raised to max_sequences so that each can yield a token
  std::uint32_t max_waiting = 256;  // beyond it submit() gives `overloaded`
  std::uint32_t kv_blocks = 0;
  std::uint32_t block_size = 16;
  std::optional<kv::Keyed> keyed;  // where blocks can be kept outside of the device's memory
};

// What is there outside, and could be brought back.
struct ColdBlocks {
  virtual ~ColdBlocks() = default;
  virtual bool holds(const kv::ChainKey& key) const = 0;
};

struct NewSequence {
  SequenceId id = 0;          // must rise: they are the order of arrival, which is that of submit()
  std::string owner;          // KV is shared among sequences of one owner only
  std::vector<Token> tokens;  // known so far, not empty
  std::uint32_t most = 0;     // tokens it may grow to
  config::RequestSettings settings = {};
  // [score_from, score_to): positions whose rows of logits are wanted, in order and each once. They are all
  // from score_from on but the last known token, or none.
  std::uint32_t score_from = 0, score_to = 0;
  // Nobody waits for it at all: it gives its slot to whoever has none, and has its turn when nobody else
  // waits. Precondition: its place is `behind`.
  bool spare = false;
};

// `n_tokens` known tokens of one sequence, from position `first_position` on.
struct PlannedSequence {
  SequenceId id = 0;
  std::uint32_t first_position = 0;
  std::uint32_t n_tokens = 0;
  bool want_logits = false;    // the last of them is the last known one: the step yields a new token
  std::uint32_t n_scored = 0;  // the last of them, but for that one, whose rows of logits are wanted, too
};

// Copy-on-write: done before the step, in order. The first part of a block that another sequence has
// computed.
struct PlannedCopy {
  kv::BlockId from = 0, to = 0;
};

// A block of a sequence's table that is to be filled with what is kept outside.
struct PlannedRestore {
  SequenceId id = 0;
  kv::BlockId block = 0;
  kv::ChainKey key;
};

struct StepPlan {
  std::vector<PlannedSequence>
      sequences;  // decodes in order of arrival, chunks of prompts, then those behind
  std::vector<PlannedCopy> copies;
  StepWork work;
  bool may_stop = false;  // nobody in it gets a token: worth giving up for one who arrives
  bool empty() const noexcept { return sequences.empty(); }
};

// The outcome of one planned sequence, which had want_logits or ended before it yields a token. A sequence
// without a result keeps what it computed.
struct StepResult {
  SequenceId id = 0;
  bool ended = false;  // finished or failed by itself; otherwise it had want_logits, `token` is appended, and
                       // `forced` behind it
  Token token = 0;
  bool distrusted = false;         // its KV may be wrong: nobody takes it over
  std::vector<Token> forced = {};  // tokens that needed no draw
};

class Scheduler {
 public:
  // cold: absent, or asked at each admission; outlives this. Precondition: then limits.keyed.
  explicit Scheduler(const SchedulerLimits& limits, const ColdBlocks* cold = nullptr);

  // overloaded; insufficient_memory when it could not finish even alone.
  Result<void> submit(NewSequence sequence);
  // Ends it: at once, or when the step in flight that computes it is over. Unknown ids are fine (it ended
  // already).
  void cancel(SequenceId id);
  // A paused sequence is not planned. It keeps its KV until another one needs the room.
  void pause(SequenceId id);
  void resume(SequenceId id);

  // The next step; empty when there is nothing to do. Precondition: no step in flight. Every decode that is
  // not behind others is in it, whatever it takes, and a prompt advances beside them; never more than
  // step_tokens. Forced tokens of decodes are computed together, as many as there are time, tokens and free
  // blocks for beside the prompts, in equal shares.
  StepPlan plan(const StepBudget& budget);
  StepPlan plan() { return plan(token_budget(limits_.step_tokens)); }
  // The step in flight has run. Results name planned sequences that were not cancelled meanwhile.
  void commit(std::span<const StepResult> results);
  // The step in flight was given up: its copies are done, its tokens are not computed.
  void retract();
  // The step in flight failed: every sequence in it ends. Returns those that were not cancelled meanwhile.
  std::vector<SequenceId> abort();

  // The next blocks, at most so many, of the earliest admitted sequence whose beginning is kept outside; it
  // is not planned until all are there. Empty: there is none.
  std::vector<PlannedRestore> next_restores(std::uint32_t most) const;
  // The first n of them are there; `failed`: the one after them cannot be had, and the rest is computed.
  // Precondition: nothing else was called since next_restores(), which named at least n.
  void restored(SequenceId id, std::uint32_t n, bool failed);
  bool restoring() const noexcept { return n_restoring_ > 0; }
  // Blocks that plan() has given to others, whose bytes are there until that step is computed.
  std::vector<kv::KeyedBlock> take_evicted() { return kv_.take_evicted(); }

  // Named prefixes, as kv::PrefixIndex has them. Precondition: no step in flight.
  void keep_prefix(std::string_view owner, std::string_view name, std::span<const Token> tokens) {
    kv_.keep_prefix(owner, name, tokens);
  }
  void drop_prefix(std::string_view owner, std::string_view name) { kv_.drop_prefix(owner, name); }

  bool contains(SequenceId id) const { return entries_.contains(id); }  // false also once cancelled
  // All that are known of it. Precondition: contains(id).
  std::span<const Token> tokens(SequenceId id) const { return entries_.at(id).tokens; }
  std::uint32_t waiting() const noexcept;
  std::uint32_t running() const noexcept { return n_admitted_; }
  std::uint64_t preemptions() const noexcept { return preemptions_; }
  const kv::KvAccountant& kv() const noexcept { return kv_; }
  // Books balance, and every count agrees with the entries. For tests and idle moments.
  bool balanced() const;

 private:
  // A sequence whose prefix another one is computing waits for it rather than compute it a second time.
  struct Leader {
    SequenceId id = 0;
    std::uint32_t positions = 0;  // what they share
  };
  struct Entry {
    std::string owner;
    std::vector<Token> tokens;   // known
    std::uint32_t computed = 0;  // of them, those whose KV is in the cache; < known()
    std::uint32_t most = 0;
    bool admitted = false;  // holds a slot and KV
    bool paused = false;
    bool spare = false;
    bool in_step = false;
    bool fresh = false;             // admitted, nothing planned since
    std::uint32_t step_tokens = 0;  // of the step in flight
    std::uint32_t appended = 1;     // tokens by its latest result, since it was admitted
    std::uint32_t skipped = 0;      // steps in a row that held others' prompts, but not this one
    std::uint32_t overtaken = 0;    // by later arrivals of its class, while it waits for a slot
    std::optional<Leader> leader;   // not admitted
    // Of the blocks after `computed`: those still to be brought back, in order from cold_done on. Admitted
    // ones alone.
    std::vector<kv::ChainKey> cold;
    std::uint32_t cold_done = 0;
    config::RequestSettings settings;
    std::uint32_t scored = 0, score_to = 0;  // [scored, score_to): positions whose rows are still wanted

    std::uint32_t known() const noexcept { return static_cast<std::uint32_t>(tokens.size()); }
    std::uint32_t left() const noexcept { return known() - computed; }
    bool restoring() const noexcept { return !cold.empty(); }
    bool scores() const noexcept { return scored < score_to; }
    // The number of leading tokens whose KV may be another's: at least the last token is computed, whose
    // logits are what the sequence is here for.
    std::uint32_t adoptable() const noexcept { return scores() ? scored : known() - 1; }
    std::uint32_t scores_of(std::uint32_t n_tokens) const noexcept;  // of the next ones
    StepCost cost(const StepCost& usual) const noexcept { return scores() ? usual.with_rows() : usual; }
    bool behind() const noexcept;
    bool decodes() const noexcept { return admitted && !paused && left() <= appended; }
    bool due() const noexcept;  // to have a slot, whatever its place
  };
  using Entries = std::map<SequenceId, Entry>;
  // Admitted sequences by owner: each one's presence.
  struct Shares {
    std::map<std::string_view, std::uint32_t> here;
    std::uint32_t most = 0;
    std::uint32_t of(const std::string& owner) const;
    bool guest(const std::string& owner) const { return is_guest(of(owner), most); }
  };
  struct Prompt {
    Entries::iterator it;
    double left = 0;         // seconds that its rest adds to a step
    std::uint32_t here = 0;  // of its owner
    bool guest = false;
  };
  struct Candidate {  // for a slot
    Entries::iterator it;
    std::uint32_t presence = 0;  // of its owner; UINT32_MAX: of no guest
  };
  enum class Admission : std::uint8_t { admitted, no_room, follows };
  struct Reserved {  // for followers, by those who came before
    std::uint32_t slots = 0, blocks = 0;
  };

  Shares shares(bool behind = false) const;
  // Makes `entry` cover `positions`, preempting paused sequences, then later arrivals. False: it has to wait.
  static bool goes_before(const Entries::value_type& one, const Entries::value_type& other);
  bool make_room(Entries::iterator entry, std::uint32_t positions);
  // How many of the next n_tokens free blocks have room for: nobody is preempted. They are given to it.
  // Precondition: its blocks cover what is computed.
  std::uint32_t cover(Entries::iterator entry, std::uint32_t n_tokens);
  void preempt(Entries::iterator entry);
  // The sequence that gives its slot and its room to `newcomer`; end(): none.
  Entries::iterator victim_for(const Entry& newcomer);
  void make_place();
  void admit_waiting();
  std::vector<Candidate> candidates();
  static Candidate take_next(std::vector<Candidate>& waiting);
  void count_overtaken(const Candidate& admitted, std::span<const Candidate> waiting) const;
  bool keeps_only_slot(const Entry& e) const noexcept;
  Admission admit(Entries::iterator entry, const Reserved& reserved);
  bool follows(const Entry& entry) const;
  std::uint32_t shared_after(const Entry& entry, SequenceId id, SequenceId other_id,
                             const Entry& other) const;
  std::optional<Leader> find_leader(Entries::iterator entry, bool waited) const;
  void fork(Entries::iterator entry, StepPlan& plan);
  void find_cold(Entries::iterator entry);
  void forget_cold(Entry& entry);
  double time_left(const Entry& entry, const StepCost& cost) const;
  std::vector<Prompt> prompts_in_order(const StepCost& cost);
  bool put_due_first(std::vector<Prompt>& prompts, double guest_whole) const;
  void plan_decodes(bool behind, StepPlan& plan);
  void add_forced(std::size_t decodes, const StepBudget& budget, StepPlan& plan);
  void plan_prompts(std::vector<Prompt> prompts, const StepBudget& budget, StepPlan& plan);
  bool add_behind(std::span<Prompt> prompts, bool turn, const StepBudget& budget, StepPlan& plan);
  std::uint32_t room_for(const Entry& entry, const StepPlan& plan) const;
  void plan_tokens(Entries::iterator entry, std::uint32_t n_tokens, StepPlan& plan);
  void free_cancelled();
  void end(Entries::iterator entry);

  SchedulerLimits limits_;
  const ColdBlocks* cold_;
  kv::KvAccountant kv_;
  Entries entries_;                    // by arrival
  std::vector<SequenceId> cancelled_;  // in the step in flight; their KV is freed when it is over
  std::uint32_t n_admitted_ = 0, n_restoring_ = 0;
  std::uint32_t crowded_steps_ = 0;  // in a row: each skipped some prompt
  double credit_ = 0;                // seconds that those `behind` may add to steps of others
  double calm_ = 0;                  // what was planned since the last submit or retract should cost
  std::uint64_t preemptions_ = 0;
  bool in_flight_ = false;
};

}  // namespace flyball::engine
