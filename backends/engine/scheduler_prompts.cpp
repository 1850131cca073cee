// Of the prompts that are to be computed: in which order, and how much of each in the next step.
#include <algorithm>
#include <vector>

#include "backends/engine/scheduler.hpp"

namespace flyball::engine {
namespace {

// A step in four begins with a prompt that was skipped, whatever arrives: each of n prompts has a part in one
// of 4n steps. Where guests (Prompt) take every step, it is a step in seven.
constexpr std::uint32_t kCrowdedSteps = 3, kCrowdedStepsByGuests = 6;
// After so many times a long step's time without an arrival steps get longer, where an arrival can stop them:
// short ones cost throughput on a device that reads all weights for each. To give up a long one costs what it
// has done: of all that is computed at most one part in kCalm + 1, however often somebody arrives.
constexpr double kCalm = 4;

}  // namespace

// The one with the least left to compute first, times what its owner has here: whoever floods makes nobody
// else wait for each of its prompts.
std::vector<Scheduler::Prompt> Scheduler::prompts_in_order(const StepCost& cost) {
  std::vector<Prompt> prompts;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& e = it->second;
    if (e.admitted && !e.paused && !e.in_step && !e.restoring() &&
        kv_.blocks_missing(it->first, e.known()) == 0)  // not a decode that waits for room
      prompts.push_back({it, cost.added(e.computed, e.left())});
  }
  if (prompts.empty()) return prompts;
  const Shares shares = this->shares();
  for (Prompt& p : prompts) {
    p.here = shares.of(p.it->second.owner);
    p.guest = shares.guest(p.it->second.owner);
  }
  std::ranges::stable_sort(prompts, {}, [](const Prompt& p) { return p.here * p.left; });
  return prompts;
}

// First a guest that the last step skipped, so that others have at most every other step before it; or, now and
// then, the prompt that was skipped longest: that is told. It waits for a guest that this step completes, which
// is out of its way then.
bool Scheduler::put_due_first(std::vector<Prompt>& prompts, double guest_whole) const {
  if (prompts.empty()) return false;
  const auto skipped = [](const Prompt& p) { return p.it->second.skipped; };
  const auto as_guest = [](const Prompt& p) { return p.guest ? p.it->second.skipped : 0; };
  auto due = std::ranges::max_element(prompts, {}, as_guest);
  const bool to_guest = as_guest(*due) > 0 && crowded_steps_ < kCrowdedStepsByGuests;
  if (!to_guest) {
    const bool completes = prompts.front().guest && prompts.front().left <= guest_whole;
    if (crowded_steps_ < (completes ? kCrowdedStepsByGuests : kCrowdedSteps)) return false;
    due = std::ranges::max_element(prompts, {}, skipped);
  }
  std::rotate(prompts.begin(), due, std::next(due));
  return !to_guest;
}

// Prompts that this step completes fill it; beside them there is no part of a longer one, so that their first
// tokens wait for nobody else's. Otherwise it holds part of one prompt, and less of it: whoever arrives
// meanwhile waits for that. What decodes beside it makes it less still, but for a guest: it has as much of a
// step as where it is alone, and its end all at once.
void Scheduler::plan_prompts(const StepBudget& budget, StepPlan& plan) {
  const bool streams = !plan.empty();
  const double empty_step = budget.cost.of({});
  auto prompts = prompts_in_order(budget.cost);
  const bool longest_first = put_due_first(prompts, budget.guest - empty_step);
  const bool full = n_admitted_ >= limits_.max_sequences;  // most who arrive now wait for a slot, not a step
  // The later in a prompt, the longer a step of so many tokens.
  const std::uint32_t position = prompts.empty() ? 0 : prompts.front().it->second.computed;
  const double longest = std::min(budget.alone, budget.cost.of(StepWork::of(position, limits_.step_tokens)));
  const bool nobody_waits = !streams && (prompts.size() == 1 || std::ranges::none_of(prompts, &Prompt::guest));
  const bool stoppable = nobody_waits && !full && budget.can_stop && calm_ >= kCalm * longest;
  const bool alone = nobody_waits && (full || stoppable);
  const auto left_of = [](double most, double spent) {
    return std::max(most - spent, most / 4);  // prompts advance beside any number of decodes
  };
  struct Left {  // seconds
    double whole, part;
  };
  const double spent = budget.cost.of(plan.work);
  Left left{left_of(alone && !stoppable ? budget.alone : budget.whole, spent),
            left_of(alone ? budget.alone : budget.part, spent)};
  Left guest{std::max(left.whole, left_of(budget.guest, empty_step)),
             std::max(left.part, left_of(budget.part, empty_step))};
  bool first = true, completes_one = false, crowded = false;
  for (const Prompt& prompt : prompts) {
    Entry& e = prompt.it->second;
    const std::uint32_t room = limits_.step_tokens - plan.work.tokens;
    const Left& mine = prompt.guest ? guest : left;
    const auto fit = [&]() -> std::uint32_t {
      if (e.left() <= room && budget.cost.added(e.computed, e.left()) <= mine.whole) return e.left();
      if (completes_one || room == 0) return 0;
      // What may be given up holds nobody's last token.
      const std::uint32_t most = std::min(room, stoppable && e.left() > 1 ? e.left() - 1 : e.left());
      return std::max(budget.cost.fit(mine.part, e.computed, most), first ? 1U : 0U);
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
    const double added = budget.cost.added(e.computed, n);
    for (Left* of : {&left, &guest}) *of = {of->whole - added, of->part - added};
    plan_tokens(prompt.it, n, plan);  // its blocks are there since it was admitted
    e.skipped = 0;
    first = false;
  }
  plan.may_stop = stoppable && !completes_one;
  crowded_steps_ = crowded && !longest_first ? crowded_steps_ + 1 : 0;
}

}  // namespace flyball::engine
