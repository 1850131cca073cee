#include "backends/engine/scheduler.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

namespace flyball::engine {
namespace {

// A step in four begins with a prompt that was skipped, whatever arrives: each of n prompts has a part in one
// of 4n steps. It is a step in seven while guests (Prompt) take every step.
constexpr std::uint32_t kCrowdedSteps = 3, kCrowdedStepsByGuests = 6;
// After so many times a long step's time without an arrival steps get longer, where an arrival can stop them:
// short ones cost throughput on a device that reads all weights for each. To give up a long one costs what it
// has done: of all that is computed at most one part in kCalm + 1, however often somebody arrives.
constexpr double kCalm = 4;

// A sequence that so many later ones have overtaken by their place is the next of its class to have a slot.
constexpr std::uint32_t kOvertakings = 3;

// Prompts, and forced tokens, advance beside any number of decodes.
double left_of(double most, double taken) {
  return std::max(most - taken, most / 4);
}

void require(bool invariant) {
  if (!invariant) std::abort();
}

}  // namespace

bool Scheduler::Entry::behind() const noexcept {
  return settings.place == config::QueuePlace::behind;
}

bool Scheduler::Entry::due() const noexcept {
  return overtaken >= kOvertakings;
}

std::uint32_t Scheduler::Entry::scores_of(std::uint32_t n_tokens) const noexcept {
  const std::uint32_t end = std::min(computed + n_tokens, score_to), begin = std::max(computed, scored);
  return end > begin ? end - begin : 0;
}

Scheduler::Scheduler(const SchedulerLimits& limits, const ColdBlocks* cold)
    : limits_(limits), cold_(cold), kv_(limits.kv_blocks, limits.block_size, limits.keyed) {
  require(limits.max_sequences > 0 && (cold == nullptr || limits.keyed));
  limits_.step_tokens = std::max(limits_.step_tokens, limits_.max_sequences);
  limits_.logit_rows = std::max(limits_.logit_rows, limits_.max_sequences);
}

Result<void> Scheduler::submit(NewSequence sequence) {
  require(!sequence.tokens.empty() && sequence.tokens.size() <= sequence.most &&
          (entries_.empty() || entries_.rbegin()->first < sequence.id) &&
          sequence.score_from <= sequence.score_to &&
          (sequence.score_from == sequence.score_to || sequence.score_to + 1 == sequence.tokens.size()));
  // Asked first, because waiting does not help. The last token sampled is never computed, but a preempted
  // sequence computes all it knows in one go.
  const std::uint32_t needed = kv_.blocks_for(sequence.most);
  if (needed > kv_.total())
    return fail(ErrorCode::insufficient_memory, "The request may grow to " + std::to_string(sequence.most) +
                                                    " tokens and needs " + std::to_string(needed) +
                                                    " KV blocks; the engine has " +
                                                    std::to_string(kv_.total()) + ".");
  if (waiting() >= limits_.max_waiting + (limits_.max_sequences - n_admitted_))
    return fail(ErrorCode::overloaded, "The engine's queue is full: " + std::to_string(waiting()) +
                                           " requests wait, the limit is " +
                                           std::to_string(limits_.max_waiting) + ".");
  Entry entry;
  entry.owner = std::move(sequence.owner);
  entry.tokens = std::move(sequence.tokens);
  entry.most = sequence.most;
  entry.settings = sequence.settings;
  entry.spare = sequence.spare;
  entry.scored = sequence.score_from;
  entry.score_to = sequence.score_to;
  entries_.emplace(sequence.id, std::move(entry));
  calm_ = 0;
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
  if (it->second.in_step) {    // the device may be writing its blocks
    cancelled_.push_back(id);  // and keeps its slot
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

StepPlan Scheduler::plan(const StepBudget& budget) {
  require(!in_flight_);
  StepPlan plan;
  plan.sequences.reserve(limits_.max_sequences);
  make_place();

  // Decodes first: a running stream's next token never waits for another one's prompt.
  plan_decodes(/*behind=*/false, plan);
  admit_waiting();
  auto prompts = prompts_in_order(budget.cost);
  const auto behind = std::ranges::find_if(prompts, [](const Prompt& p) { return p.it->second.behind(); });
  std::vector<Prompt> later(behind, prompts.end());
  prompts.erase(behind, prompts.end());
  AskedBudgets asked;  // but by those behind
  for (const auto& [id, e] : entries_) {
    if (e.in_step) asked.add(e.settings.step_budget);
    if (!e.paused && !e.admitted) asked.add_waiting(e.settings.step_budget);
  }
  for (const Prompt& prompt : prompts) asked.add(prompt.it->second.settings.step_budget);
  AskedBudgets all = asked;
  for (const auto& [id, e] : entries_)
    if (!e.paused && e.admitted && e.behind()) all.add(e.settings.step_budget);
  if (plan.empty() && prompts.empty()) {
    credit_ = 0;
    plan_decodes(/*behind=*/true, plan);
    std::erase_if(later, [](const Prompt& p) { return p.it->second.in_step || !p.it->second.admitted; });
    const std::size_t decodes = plan.sequences.size();
    const StepBudget within = step_budget(budget, all);
    plan_prompts(std::move(later), within, plan);
    add_forced(decodes, within, plan);
  } else {
    const std::size_t decodes = plan.sequences.size();
    const StepBudget within = step_budget(budget, asked), within_all = step_budget(budget, all);
    // Sequences behind get a step now and then, also where the prompts of others fill every step.
    const bool turn = credit_ >= budget.alone && add_behind(later, /*turn=*/true, within_all, plan);
    if (!turn) plan_prompts(std::move(prompts), within, plan);
    add_forced(decodes, within, plan);
    if (!turn) add_behind(later, /*turn=*/false, within_all, plan);
    credit_ = std::min(credit_ + kBehindShare * budget.cost.of(plan.work), budget.alone);
  }
  in_flight_ = !plan.empty();
  if (in_flight_) calm_ += budget.cost.of(plan.work);
  return plan;
}

// make_room may preempt others, which are then no longer admitted when the loop comes to them.
void Scheduler::plan_decodes(bool behind, StepPlan& plan) {
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& e = it->second;
    if (e.decodes() && e.behind() == behind && make_room(it, e.computed + 1)) plan_tokens(it, 1, plan);
  }
}

// More tokens of the first `decodes` sequences in the plan, of what prompts have left of its time and tokens;
// at least a share of a part, as prompts have beside any number of decodes. Each decode has an equal share,
// and those that need less leave the rest to others.
void Scheduler::add_forced(std::size_t decodes, const StepBudget& budget, StepPlan& plan) {
  const StepCost& cost = budget.cost;
  const double spent = cost.of(plan.work);
  double left = std::min(left_of(budget.part, spent), budget.most - spent);
  std::vector<PlannedSequence*> waiting;
  for (PlannedSequence& s : std::span(plan.sequences).first(decodes))
    if (!s.want_logits) waiting.push_back(&s);
  std::ranges::stable_sort(waiting, {}, [&](const auto* s) { return entries_.at(s->id).left(); });
  auto sharers = static_cast<std::uint32_t>(waiting.size());
  for (PlannedSequence* s : waiting) {
    const auto it = entries_.find(s->id);
    Entry& e = it->second;
    const std::uint32_t room = (limits_.step_tokens - plan.work.tokens + sharers - 1) / sharers;
    const double time_of_one = cost.added(s->first_position, 1);
    const std::uint32_t fit =
        cost.fit(left / sharers-- + time_of_one, s->first_position, std::min(e.left(), 1 + room));
    const std::uint32_t n = std::max(cover(it, fit), 1U);
    const StepWork one = StepWork::of(s->first_position, 1), all = StepWork::of(s->first_position, n);
    plan.work += {all.tokens - one.tokens, all.pairs - one.pairs, all.reads - one.reads};
    left -= cost.added(s->first_position, n) - time_of_one;
    s->n_tokens = e.step_tokens = n;
    s->want_logits = n == e.left();
  }
}

// The steps of others earn a share of their time for those behind, who spend it in such steps. A step bound
// by reading the weights takes hardly longer for another token: there they decode in every step. Nothing is
// added to a step that may be given up. True: something was.
bool Scheduler::add_behind(std::span<Prompt> prompts, bool turn, const StepBudget& budget, StepPlan& plan) {
  if (plan.may_stop) return false;
  const StepCost& cost = budget.cost;
  const std::size_t others = plan.sequences.size();
  const auto added = [&] { return plan.sequences.size() > others; };
  const auto left = [&] {
    const double in_step = std::min(budget.most, budget.alone) - cost.of(plan.work);
    return std::min(credit_, turn && !added() ? std::max(in_step, cost.added(0, kLeastStepTokens)) : in_step);
  };
  const auto room = [&](const Entry& e) { return room_for(e, plan); };
  const auto add = [&](Entries::iterator it, std::uint32_t n) {
    credit_ -= it->second.cost(cost).added(it->second.computed, n);
    plan_tokens(it, n, plan);
  };
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& e = it->second;
    if (!e.behind() || !e.decodes() || room(e) == 0) continue;
    const std::uint32_t n = cost.fit(left(), e.computed, std::min(room(e), e.left()));
    if (n == 0) return added();
    if (make_room(it, e.computed + 1)) add(it, cover(it, n));
  }
  for (const Prompt& prompt : prompts) {
    Entry& e = prompt.it->second;
    if (e.in_step || !e.admitted) continue;  // a decode, or it made room for one
    const auto most = [&] { return std::min(room(e), e.left()); };
    const auto fit = [&] { return e.cost(cost).fit(left(), e.computed, most()); };
    const std::uint32_t part = std::min(kLeastStepTokens, e.scores() ? most() : e.left());
    const std::uint32_t least = turn ? 1 : std::max(part, 1U);
    if (fit() < least) return added();
    if (e.fresh) fork(prompt.it, plan);
    add(prompt.it, std::max(fit(), 1U));
  }
  return added();
}

Scheduler::Shares Scheduler::shares(bool behind) const {
  Shares out;
  for (const auto& [id, e] : entries_)
    if (e.admitted && e.behind() == behind) out.most = std::max(out.most, ++out.here[e.owner]);
  return out;
}

std::uint32_t Scheduler::Shares::of(const std::string& owner) const {
  const auto it = here.find(owner);
  return it == here.end() ? 0 : it->second;
}

// Seconds that its rest adds to steps. A prompt whose rows do not fit in one step takes further steps.
double Scheduler::time_left(const Entry& e, const StepCost& cost) const {
  const double added = e.cost(cost).added(e.computed, e.left());
  if (!e.scores()) return added;
  const std::uint32_t rows = limits_.logit_rows - n_admitted_ + 1;
  return added + cost.step * ((e.score_to - e.scored - 1) / rows);
}

// By place; then the one with the least left to compute first, times what its owner has here: whoever floods
// makes nobody else wait for each of its prompts.
std::vector<Scheduler::Prompt> Scheduler::prompts_in_order(const StepCost& cost) {
  std::vector<Prompt> prompts;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& e = it->second;
    if (e.admitted && !e.paused && !e.in_step && !e.restoring() &&
        kv_.blocks_missing(it->first, e.known()) == 0)  // not a decode that waits for room
      prompts.push_back({it, time_left(e, cost)});
  }
  if (prompts.empty()) return prompts;
  const Shares shares = this->shares(), shares_behind = this->shares(/*behind=*/true);
  for (Prompt& p : prompts) {
    const Entry& e = p.it->second;
    p.here = (e.behind() ? shares_behind : shares).of(e.owner);
    p.guest = shares.guest(e.owner) && !e.behind();
  }
  std::ranges::stable_sort(prompts, {}, [](const Prompt& p) {
    return std::pair(place_rank(p.it->second.settings.place), prompt_rank(p.left, p.here));
  });
  return prompts;
}

// First a guest that the last step skipped, so that others have at most every other step before it; or, now
// and then, the prompt that was skipped longest: that is told. It waits for a guest that this step completes,
// which is out of its way then.
bool Scheduler::put_due_first(std::vector<Prompt>& prompts, double guest_whole) const {
  if (prompts.empty()) return false;
  const auto skipped = [](const Prompt& p) { return p.it->second.skipped; };
  const auto as_guest = [](const Prompt& p) { return p.guest ? p.it->second.skipped : 0; };
  auto due = std::ranges::max_element(prompts, {}, as_guest);
  const bool to_guest = as_guest(*due) > 0 && crowded_steps_ < kCrowdedStepsByGuests;
  if (!to_guest) {
    const Prompt& front = prompts.front();
    const bool completes = front.guest && front.left <= guest_whole;
    if (crowded_steps_ < (completes ? kCrowdedStepsByGuests : kCrowdedSteps)) return false;
    due = std::ranges::max_element(prompts, {}, skipped);
  }
  std::rotate(prompts.begin(), due, std::next(due));
  return !to_guest;
}

// Prompts that this step completes fill it; beside them there is no part of a longer one, so that their first
// tokens wait for nobody else's. Otherwise it holds part of one prompt, or parts of several where their
// chunks leave room, and it is shorter: whoever arrives meanwhile waits for it. What decodes beside it makes
// it less still, but for a guest: it has as much of a step as where it is alone, and its end all at once.
void Scheduler::plan_prompts(std::vector<Prompt> prompts, const StepBudget& budget, StepPlan& plan) {
  const bool streams = !plan.empty();
  const double empty_step = budget.cost.of({});
  const double spent = budget.cost.of(plan.work);
  const bool longest_first = put_due_first(prompts, std::min(budget.guest - empty_step, budget.most - spent));
  const bool full = n_admitted_ >= limits_.max_sequences;  // most who arrive now wait for a slot, not a step
  // The later in a prompt, the longer a step of so many tokens.
  const std::uint32_t position = prompts.empty() ? 0 : prompts.front().it->second.computed;
  const double longest = budget.cost.of(StepWork::of(position, limits_.step_tokens));
  const bool nobody_waits =
      !streams && (prompts.size() == 1 || std::ranges::none_of(prompts, &Prompt::guest));
  const auto calm_for = [&](double step) {
    return nobody_waits && !full && budget.can_stop && calm_ >= kCalm * std::min(step, longest);
  };
  const bool stoppable = calm_for(budget.alone);
  const bool alone = nobody_waits && (full || stoppable);
  const double lone = calm_for(budget.stoppable) ? std::max(budget.alone, budget.stoppable) : budget.alone;
  struct Left {  // seconds
    double whole, part;
  };
  Left left{left_of(alone && !stoppable ? budget.alone : budget.whole, spent),
            left_of(alone ? lone : budget.part, spent)};
  Left guest{std::max(left.whole, left_of(budget.guest, empty_step)),
             std::max(left.part, left_of(budget.part, empty_step))};
  // The KV before the prompt's next token is read for one token as for many. Beside a deep prompt's own
  // reading little else would fit: it is not counted where no stream waits for the step, within the longest
  // step.
  if (!streams) {
    const double reading = budget.cost.read * position;
    const auto with = [&](double seconds) {
      return std::min(seconds + reading, std::max(seconds, budget.alone));
    };
    for (Left* of : {&left, &guest}) *of = {with(of->whole), with(of->part)};
  }
  bool first = true, completes_one = false, crowded = false;
  for (const Prompt& prompt : prompts) {
    Entry& e = prompt.it->second;
    const StepCost cost = e.cost(budget.cost);
    const Left& mine = prompt.guest ? guest : left;
    const double within =
        std::max(budget.most - budget.cost.of(plan.work), first ? cost.added(0, kLeastStepTokens) : 0);
    const auto fit = [&]() -> std::uint32_t {
      const std::uint32_t room = room_for(e, plan);
      if (e.left() <= room && cost.added(e.computed, e.left()) <= std::min(mine.whole, within))
        return e.left();
      if (completes_one || room == 0) return 0;
      // A step that may be given up holds nobody's last token.
      if (stoppable && !first && e.left() == 1) return 0;
      const std::uint32_t most = std::min(room, stoppable && e.left() > 1 ? e.left() - 1 : e.left());
      return std::max(cost.fit(std::min(mine.part, within), e.computed, most), first ? 1U : 0U);
    };
    std::uint32_t n = fit();
    if (n == 0) {
      ++e.skipped;
      crowded = true;
      continue;
    }
    if (e.fresh) {
      fork(prompt.it, plan);
      n = std::max(fit(), 1U);
    }
    if (n == e.left()) completes_one = true;
    const double added = cost.added(e.computed, n);
    for (Left* of : {&left, &guest}) *of = {of->whole - added, of->part - added};
    plan_tokens(prompt.it, n, plan);  // its blocks are there since it was admitted
    e.skipped = 0;
    first = false;
  }
  plan.may_stop = stoppable && !completes_one;
  crowded_steps_ = crowded && !longest_first ? crowded_steps_ + 1 : 0;
}

// Most tokens that the step has room for, by their number and by the rows of logits that they want. The row
// that is kept for the sequence is free unless the step yields a token of it.
std::uint32_t Scheduler::room_for(const Entry& e, const StepPlan& plan) const {
  const std::uint32_t tokens = limits_.step_tokens - plan.work.tokens;
  if (!e.scores()) return tokens;
  std::uint32_t spare = limits_.logit_rows - n_admitted_;
  for (const PlannedSequence& s : plan.sequences)
    spare -= std::max(s.n_scored + (s.want_logits ? 1U : 0U), 1U) - 1;
  if (e.score_to - e.scored <= spare) return tokens;
  return std::min(tokens, e.scored - e.computed + spare + 1);
}

void Scheduler::plan_tokens(Entries::iterator it, std::uint32_t n_tokens, StepPlan& plan) {
  Entry& e = it->second;
  plan.sequences.push_back({it->first, e.computed, n_tokens, n_tokens == e.left(), e.scores_of(n_tokens)});
  plan.work += StepWork::of(e.computed, n_tokens);
  plan.work.rows += plan.sequences.back().n_scored;
  e.in_step = true;
  e.fresh = false;
  e.step_tokens = n_tokens;
}

bool Scheduler::goes_before(const Entries::value_type& one, const Entries::value_type& other) {
  return std::pair(one.second.behind(), one.first) < std::pair(other.second.behind(), other.first);
}

// The first by goes_before() is never a victim here, and alone it fits (submit saw to that): it always
// advances, so every sequence ends. Victims are paused ones, then those behind, then later ones, the latest
// of who has most here; one's own rather than a guest, for which the others wait.
bool Scheduler::make_room(Entries::iterator it, std::uint32_t positions) {
  while (!kv_.grow(it->first, positions)) {
    const Shares shares = this->shares();
    const auto rank = [&](const Entry& o) { return std::tuple(o.paused, o.behind(), shares.of(o.owner)); };
    const std::uint32_t own = shares.of(it->second.owner);
    auto victim = entries_.end();
    for (auto other = entries_.begin(); other != entries_.end(); ++other) {
      const Entry& o = other->second;
      if (other == it || !o.admitted || o.in_step) continue;
      if (!o.paused && (goes_before(*other, *it) || (!o.behind() && is_guest(shares.of(o.owner), own))))
        continue;
      if (victim == entries_.end() || rank(o) >= rank(victim->second)) victim = other;
    }
    if (victim == entries_.end()) return false;
    preempt(victim);
  }
  return true;
}

std::uint32_t Scheduler::cover(Entries::iterator it, std::uint32_t n_tokens) {
  const std::uint32_t computed = it->second.computed;
  const std::uint64_t blocks = kv_.table(it->first).size() + kv_.free();
  const auto there =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(computed + n_tokens, blocks * limits_.block_size));
  require(kv_.grow(it->first, there));
  return there - computed;
}

// What it has published stays until its room is needed: often most of it is there when it comes back.
void Scheduler::preempt(Entries::iterator it) {
  kv_.release(it->first);
  forget_cold(it->second);
  it->second.computed = 0;
  it->second.skipped = 0;
  it->second.appended = 1;
  it->second.admitted = false;
  --n_admitted_;
  ++preemptions_;
}

// A newcomer waits for a slot for at most one step while another owner yields a place: the latest sequence of
// the owner with most gives its slot, and goes on where it was when a slot is free again. Its computed KV
// stays, unless the room is needed.
void Scheduler::make_place() {
  if (n_admitted_ < limits_.max_sequences || entries_.size() <= n_admitted_) return;
  const Shares shares = this->shares();
  const auto newcomer = std::ranges::find_if(entries_, [&](const auto& entry) {
    const Entry& e = entry.second;
    return !e.admitted && !e.paused && !e.behind() && is_newcomer(shares.of(e.owner));
  });
  if (newcomer == entries_.end() || !yields_place(shares.most)) return;
  if (victim_for(newcomer->second) != entries_.end()) return;  // its admission takes that place
  auto latest = std::prev(entries_.end());
  while (!latest->second.admitted || latest->second.behind() ||
         shares.of(latest->second.owner) != shares.most)
    --latest;
  preempt(latest);
}

// Guests first, who wait for no flood's queue, and of them who has least; then by place, and in order of
// arrival.
std::vector<Scheduler::Candidate> Scheduler::candidates() {
  std::vector<Candidate> waiting;
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (!it->second.admitted && !it->second.paused) waiting.push_back({it, UINT32_MAX});
  if (waiting.size() < 2) return waiting;
  const Shares shares = this->shares();
  for (Candidate& w : waiting)
    if (!w.it->second.behind() && shares.guest(w.it->second.owner))
      w.presence = shares.of(w.it->second.owner);
  std::ranges::stable_sort(waiting, {}, [](const Candidate& w) {
    const Entry& e = w.it->second;
    return std::tuple(w.presence, e.spare, place_rank(e.settings.place));
  });
  return waiting;
}

// The first one, but for the earliest arrival of its class (presence), or of those behind, that is due.
Scheduler::Candidate Scheduler::take_next(std::vector<Candidate>& waiting) {
  auto next = waiting.begin();
  for (auto w = next; w != waiting.end(); ++w) {
    if (w->presence != waiting.front().presence && !w->it->second.behind()) continue;
    const bool earlier = !next->it->second.due() || w->it->first < next->it->first;
    if (w->it->second.due() && earlier) next = w;
  }
  const Candidate taken = *next;
  waiting.erase(next);
  return taken;
}

// The admitted one has overtaken those of its class, and those behind, that came before it. The turn of one
// that was due leaves those after it to count anew, so that an admission in four is for such a turn, however
// many wait.
void Scheduler::count_overtaken(const Candidate& admitted, std::span<const Candidate> waiting) const {
  const bool was_due = admitted.it->second.due();
  for (const Candidate& w : waiting) {
    if (w.it->second.spare || (w.presence != admitted.presence && !w.it->second.behind())) continue;
    if (w.it->first < admitted.it->first)
      ++w.it->second.overtaken;
    else if (was_due)
      w.it->second.overtaken = 0;
  }
  if (!keeps_only_slot(admitted.it->second)) admitted.it->second.overtaken = 0;
}

// One behind others, at an engine with one slot: it has its turn, and would give it to the next that comes.
bool Scheduler::keeps_only_slot(const Entry& e) const noexcept {
  return limits_.max_sequences == 1 && e.behind() && e.due();
}

// Nobody overtakes one that waits for room, nor takes the room of one that waits for its leader.
void Scheduler::admit_waiting() {
  auto waiting = candidates();
  Reserved reserved;
  while (!waiting.empty()) {
    const Candidate one = take_next(waiting);
    const Admission admission = admit(one.it, reserved);
    if (admission == Admission::no_room) break;
    if (admission == Admission::admitted) count_overtaken(one, waiting);
    if (admission != Admission::follows) continue;
    const Entry& e = one.it->second;
    ++reserved.slots;
    reserved.blocks += kv_.blocks_for(e.known()) - e.leader->positions / limits_.block_size;
  }
}

// A spare one, then a paused one; for one that is not behind others the latest that is, but for the last of
// these: it goes on. An only slot is given up, but by one that is due.
Scheduler::Entries::iterator Scheduler::victim_for(const Entry& newcomer) {
  auto latest = entries_.end();
  std::uint32_t behind = 0;
  for (auto other = entries_.begin(); other != entries_.end(); ++other) {
    const Entry& o = other->second;
    if (!o.admitted || o.in_step || (!o.paused && !o.behind())) continue;
    if (o.spare && !newcomer.spare) return other;
    if (!o.paused) ++behind;
    if (latest == entries_.end() || o.paused || !latest->second.paused) latest = other;
  }
  if (latest == entries_.end() || latest->second.paused) return latest;
  const bool last = limits_.max_sequences > 1 ? behind == 1 : keeps_only_slot(latest->second);
  return newcomer.behind() || last ? entries_.end() : latest;
}

Scheduler::Admission Scheduler::admit(Entries::iterator it, const Reserved& reserved) {
  Entry& e = it->second;
  if (follows(e)) return Admission::follows;
  const auto no_slot = [&] { return n_admitted_ + reserved.slots >= limits_.max_sequences; };
  if (no_slot() && victim_for(e) == entries_.end()) return Admission::no_room;  // before it costs anything
  e.computed = kv_.adopt(it->first, e.owner, std::span(e.tokens).first(e.adoptable()));
  const auto back_out = [&](Admission why) {
    kv_.release(it->first);
    e.computed = 0;
    return why;
  };
  e.leader = find_leader(it, /*waited=*/e.leader.has_value());
  if (e.leader) return back_out(Admission::follows);

  // One spare block for each that runs: without it a newcomer would be preempted at the next block border.
  while (no_slot() || kv_.blocks_missing(it->first, e.known()) + n_admitted_ + reserved.blocks > kv_.free()) {
    if (n_admitted_ == 0) break;  // alone it always fits
    const auto victim = victim_for(e);
    if (victim == entries_.end()) return back_out(Admission::no_room);
    preempt(victim);
  }
  if (cold_ != nullptr) find_cold(it);
  if (!kv_.grow(it->first, e.known())) {
    forget_cold(e);
    return back_out(Admission::no_room);
  }
  e.fresh = true;
  e.admitted = true;
  ++n_admitted_;
  return Admission::admitted;
}

// Before the table grows: its last block is the end of what was found in memory.
void Scheduler::find_cold(Entries::iterator it) {
  Entry& e = it->second;
  kv::ChainKey key = kv_.key_of(it->first, e.owner);
  const std::uint32_t size = limits_.block_size;
  for (std::uint32_t at = e.computed; at + size <= e.adoptable(); at += size) {
    key = kv::next_key(key, std::span(e.tokens).subspan(at, size));
    if (!cold_->holds(key)) break;
    e.cold.push_back(key);
  }
  if (e.restoring()) ++n_restoring_;
}

void Scheduler::forget_cold(Entry& e) {
  if (e.restoring()) --n_restoring_;
  e.cold.clear();
  e.cold_done = 0;
}

std::vector<PlannedRestore> Scheduler::next_restores(std::uint32_t most) const {
  std::vector<PlannedRestore> next;
  if (!restoring()) return next;
  const auto it = std::ranges::find_if(entries_, [](const auto& entry) { return entry.second.restoring(); });
  const Entry& e = it->second;
  const auto table = kv_.table(it->first);
  const std::uint32_t first = e.computed / limits_.block_size;
  const auto left = static_cast<std::uint32_t>(e.cold.size()) - e.cold_done;
  for (std::uint32_t i = 0; i < std::min(most, left); ++i)
    next.push_back({it->first, table[first + i], e.cold[e.cold_done + i]});
  return next;
}

void Scheduler::restored(SequenceId id, std::uint32_t n, bool failed) {
  Entry& e = entries_.at(id);
  require(e.restoring() && n <= e.cold.size() - e.cold_done);
  e.cold_done += n;
  e.computed += n * limits_.block_size;
  kv_.publish(id, e.owner, std::span(e.tokens).first(e.computed));
  if (failed || e.cold_done == e.cold.size()) forget_cold(e);
}

bool Scheduler::follows(const Entry& entry) const {
  if (!entry.leader) return false;
  const auto it = entries_.find(entry.leader->id);
  if (it == entries_.end()) return false;
  const Entry& leader = it->second;
  return leader.admitted && !leader.paused && leader.computed < entry.leader->positions;
}

// Tokens that `other` knows, too, after what `entry` has adopted (whole blocks, nothing computed since);
// none that `entry` has to compute itself. Equal ids of the block before mean equal tokens up to there:
// publish sees to that.
std::uint32_t Scheduler::shared_after(const Entry& entry, SequenceId id, SequenceId other_id,
                                      const Entry& other) const {
  if (other.owner != entry.owner || !kv_.trusted(other_id)) return 0;
  const std::uint32_t from = entry.computed;
  if (from > 0) {
    const std::uint32_t before = from / limits_.block_size - 1;
    const auto theirs = kv_.table(other_id);
    if (theirs.size() <= before || theirs[before] != kv_.table(id)[before]) return 0;
  }
  const std::uint32_t end = std::min(entry.adoptable(), other.known());
  std::uint32_t at = from;
  while (at < end && entry.tokens[at] == other.tokens[at]) ++at;
  return at - from;
}

// Worth waiting for: whole blocks, or all that the sequence has to compute but for its last token. The latter
// once only: a part of a block is gone with its leader, and then the next of many equal prompts would lead.
// One whose rows are wanted is slow, and leads nobody. One behind others is slow, too: who does not stand
// behind takes over what it has published, and computes the rest.
std::optional<Scheduler::Leader> Scheduler::find_leader(Entries::iterator it, bool waited) const {
  const Entry& e = it->second;
  std::uint32_t there = e.computed;  // positions that can be taken over now
  std::optional<Leader> leader;
  for (const auto& [other_id, other] : entries_) {
    if (other_id == it->first || !other.admitted) continue;
    std::uint32_t end = e.computed + shared_after(e, it->first, other_id, other);
    there = std::max(there, std::min(end, other.computed));
    if (waited || end != e.known() - 1) end -= end % limits_.block_size;
    if (other.behind() && !e.behind()) continue;
    if (!other.paused && !other.scores() && other.computed < end && (!leader || leader->positions < end))
      leader = Leader{other_id, end};
  }
  if (leader && leader->positions <= there) leader.reset();
  return leader;
}

// The rest of a shared prefix ends inside a block: what another sequence has computed of it is copied.
void Scheduler::fork(Entries::iterator it, StepPlan& plan) {
  Entry& e = it->second;
  std::uint32_t most = 0;
  kv::BlockId from = 0;
  const std::uint32_t block = e.computed / limits_.block_size;
  for (const auto& [other_id, other] : entries_) {
    if (other_id == it->first || !other.admitted || other.computed <= e.computed) continue;
    const std::uint32_t n = std::min(
        {shared_after(e, it->first, other_id, other), other.computed - e.computed, limits_.block_size});
    if (n <= most) continue;
    most = n;
    from = kv_.table(other_id)[block];
  }
  if (most == 0) return;
  plan.copies.push_back({from, kv_.table(it->first)[block]});
  e.computed += most;
}

void Scheduler::free_cancelled() {
  for (const SequenceId id : cancelled_) {
    kv_.release(id);
    --n_admitted_;
  }
  cancelled_.clear();
}

void Scheduler::end(Entries::iterator it) {
  kv_.release(it->first);
  forget_cold(it->second);
  if (it->second.admitted) --n_admitted_;
  entries_.erase(it);
}

void Scheduler::commit(std::span<const StepResult> results) {
  require(in_flight_);
  in_flight_ = false;
  free_cancelled();
  for (const StepResult& result : results)
    if (result.distrusted) kv_.distrust(result.id);
  for (auto& [id, e] : entries_) {
    if (!e.in_step) continue;
    e.computed += e.step_tokens;
    if (e.scores()) e.scored = std::max(e.scored, std::min(e.computed, e.score_to));
    e.in_step = false;
    kv_.publish(id, e.owner, std::span(e.tokens).first(e.computed));
  }
  for (const StepResult& result : results) {
    const auto it = entries_.find(result.id);
    require(it != entries_.end() && (result.ended || it->second.left() == 0));
    if (result.ended) {
      end(it);
    } else {
      Entry& e = it->second;
      e.tokens.push_back(result.token);
      e.tokens.insert(e.tokens.end(), result.forced.begin(), result.forced.end());
      e.appended = 1 + static_cast<std::uint32_t>(result.forced.size());
      require(e.known() <= e.most);
    }
  }
}

void Scheduler::retract() {
  require(in_flight_);
  in_flight_ = false;
  calm_ = 0;
  free_cancelled();
  for (auto& [id, e] : entries_) e.in_step = false;
}

std::vector<SequenceId> Scheduler::abort() {
  require(in_flight_);
  in_flight_ = false;
  free_cancelled();
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
  std::uint32_t restoring = 0;
  for (const auto& [id, e] : entries_) {
    if (e.restoring()) ++restoring;
    if (e.restoring() && (!e.admitted || e.in_step || e.cold_done >= e.cold.size())) return false;
    if (e.admitted) ++admitted;
    if (!e.admitted && (!kv_.table(id).empty() || e.computed != 0 || e.in_step)) return false;
    if (e.computed > e.known() || e.known() > e.most) return false;
    if (e.scores() && e.computed > e.scored) return false;  // a row would be missed
    if (e.computed > kv_.table(id).size() * limits_.block_size) return false;
  }
  if (!in_flight_ && !cancelled_.empty()) return false;
  return restoring == n_restoring_ && admitted == n_admitted_ && n_admitted_ <= limits_.max_sequences;
}

}  // namespace flyball::engine
