#include "daemon/predict/engine_work.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "backends/engine/step_budget.hpp"

namespace flyball::predict {
namespace {

// Ends of answers that a forecast follows one by one. Those beyond come at the mean pace of all slots.
constexpr std::uint32_t kMostFollowed = 64;
constexpr double kBlock = 16;               // positions of a KV block
constexpr std::uint32_t kStepTokens = 256;  // of a step, as engine::SchedulerLimits has it

}  // namespace

void Group::advance(TimePoint now) noexcept {
  busy_seconds += busy * seconds_between(at, now);
  at = std::max(at, now);
}

void EngineWork::advance(TimePoint now) noexcept {
  group_->advance(now);
  const double passed = seconds_between(done_.at, now);
  arrivals_.passed(passed, !open_.empty());
  done_.stream_seconds += streams_ * passed;
  done_.position_seconds += positions_ * passed;
  done_.at = std::max(done_.at, now);
}

std::uint32_t EngineWork::number_of(const AnswerLength& app) {
  return numbers_.try_emplace(&app, static_cast<std::uint32_t>(numbers_.size())).first->second;
}

Stay& EngineWork::enter(Stay stay) {
  advance(stay.placed);
  // Its further answers, and one that another engine began, are no new request.
  const bool known = stay.request != 0 &&
                     std::ranges::any_of(open_, [&](const Open& one) { return one.request == stay.request; });
  if (!known && !stay.resumed) arrivals_.came(stay.uncached(), !open_.empty());
  Open one{.id = stay.id, .request = stay.request, .app = number_of(*stay.app), .lengths = stay.app->seen()};
  one.state = stay.state;
  one.prompt = stay.uncached();
  one.pairs = pairs_of(stay.uncached(), stay.cached);
  one.left = stay.left();
  one.positions = stay.positions();
  one.cached = stay.cached;
  set_settings(one, stay);
  if (one.interactive && !known && !stay.came_before)
    interactive_arrivals_.came(stay.placed, stay.uncached(), stay.left());
  here_.resize(numbers_.size());
  open_.push_back(one);
  return *stays_.emplace_back(std::make_unique<Stay>(std::move(stay)));
}

// A policy that places a request behind all others has said that nobody waits for it.
void EngineWork::set_settings(Open& one, const Stay& stay) noexcept {
  one.place = static_cast<std::uint8_t>(place_rank(stay.settings.place));
  one.has_step_budget = stay.settings.step_budget.has_value();
  interactive_ -= one.interactive;
  one.interactive = stay.interactive && stay.settings.place != config::QueuePlace::behind;
  interactive_ += one.interactive;
}

void EngineWork::asks(std::uint64_t id, const config::RequestSettings& settings) {
  Stay& stay = *find(id);
  stay.settings = settings;
  set_settings(open_of(stay), stay);
}

double EngineWork::left_of(std::size_t i) {
  Open& one = open_[i];
  if (const std::uint32_t seen = stays_[i]->app->seen(); one.lengths != seen) {
    one.lengths = seen;
    one.left = stays_[i]->left();
  }
  return one.left;
}

// open_.size(): it is not here.
std::size_t EngineWork::index_of(std::uint64_t id) const {
  const auto it = std::ranges::lower_bound(open_, id, {}, &Open::id);
  return it != open_.end() && it->id == id ? static_cast<std::size_t>(it - open_.begin()) : open_.size();
}

Stay* EngineWork::find(std::uint64_t id) {
  const std::size_t i = index_of(id);
  return i == open_.size() ? nullptr : stays_[i].get();
}

void EngineWork::count_begun() {
  std::ranges::fill(here_, 0);
  for (const Open& one : open_)
    if (one.state != Stay::State::waits) ++here_[one.app];
}

// The first by place_rank() and prompt_rank(). Answers to a prompt that another one computes have a token of
// it, and do not count.
EngineWork::Open* EngineWork::prompt_at_hand() {
  const auto is_computed = [](const Open& one) {
    return one.state == Stay::State::prefills && one.prompt > 1;
  };
  const auto first = std::ranges::find_if(open_, is_computed);
  if (first == open_.end()) return nullptr;
  if (std::none_of(first + 1, open_.end(), is_computed)) return &*first;
  count_begun();
  const auto order = [&](const Open& one) {
    return std::pair(one.place, prompt_rank(one.to_compute(), here_[one.app]));
  };
  Open* least = &*first;
  for (Open& one : open_)
    if (is_computed(one) && order(one) < order(*least)) least = &one;
  return least;
}

// The time since was spent on the prompt at hand. One that gives way to another keeps what is computed of it.
void EngineWork::advance_prompts(TimePoint now, const EngineModel& model) {
  const bool stands_still = yields_ && group_->busy > 0;
  if (Open* const first = stands_still ? nullptr : prompt_at_hand()) {
    const double whole = model.prefill({first->prompt, first->pairs, static_cast<double>(streams_)});
    const double since = seconds_between(prompts_at_, now) / std::max(whole * model.slowdown(busy()), 1e-6);
    constexpr double kMost = 0.9;  // it is not done yet
    const double computed = std::min(first->computed + first->prompt * since, first->prompt * kMost);
    first->computed = std::max(first->computed, static_cast<float>(computed));
  }
  prompts_at_ = std::max(prompts_at_, now);
}

WorkDone EngineWork::done(TimePoint now, const EngineModel& model) {
  advance(now);
  advance_prompts(now, model);
  WorkDone out = done_;
  for (const Open& one : open_)
    if (one.state == Stay::State::prefills) out.prefilled += one.computed;
  out.busy_seconds = group_->busy_seconds;
  return out;
}

void EngineWork::begin(Stay& stay, TimePoint now, const EngineModel& model) {
  if (stay.state != Stay::State::waits) return;
  advance(now);
  stay.at_begin = done(now, model);
  stay.state = open_of(stay).state = Stay::State::prefills;
  if (begun_++ == 0 && !yields_) ++group_->busy;
}

void EngineWork::first_token(Stay& stay, TimePoint now, const EngineModel& model) {
  if (stay.state != Stay::State::prefills) return;
  advance(now);
  done_.prefilled += stay.uncached();
  done_.pairs += pairs_of(stay.uncached(), stay.cached);
  prompts_at_ = std::max(prompts_at_, now);  // the time since was spent on this one
  Open& one = open_of(stay);
  stay.state = one.state = Stay::State::decodes;
  one.positions = stay.positions();  // as the engine has counted them
  one.cached = stay.cached;
  stay.first = now;
  stay.at_first = done(now, model);
  ++streams_;
  positions_ += stay.positions();
}

void EngineWork::generated(Stay& stay, std::uint32_t tokens, TimePoint now) {
  if (stay.state != Stay::State::decodes) return;
  advance(now);
  stay.generated += tokens;
  Open& one = open_of(stay);
  one.lengths = stay.app->seen();
  one.left = stay.left();
  one.positions = stay.positions();
  positions_ += tokens;
  done_.decoded += tokens;
}

void EngineWork::leave(std::uint64_t id, TimePoint now, const EngineModel& model) {
  const std::size_t i = index_of(id);
  if (i == open_.size()) return;
  const Stay& stay = *stays_[i];
  advance(now);
  if (stay.state == Stay::State::decodes) {
    --streams_;
    positions_ = streams_ == 0 ? 0 : positions_ - stay.positions();
  }
  if (stay.state == Stay::State::prefills) {  // what is computed of it was work all the same
    advance_prompts(now, model);
    done_.prefilled += open_[i].computed;
    done_.pairs += open_[i].pairs - open_[i].pairs_to_compute();
  }
  if (stay.state != Stay::State::waits && --begun_ == 0 && !yields_ && --group_->busy == 0)
    group_->idle_since = now;
  interactive_ -= open_[i].interactive;
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
  stays_.erase(stays_.begin() + static_cast<std::ptrdiff_t>(i));
  left_ = now;
}

EngineWork::Others EngineWork::look_at_others(const Asked& asked) {
  Others out;
  begun_left_.clear();
  prompts_.reserve(open_.capacity());
  const double output = std::max(asked.output, 1.0);
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const Open& one = open_[i];
    if (is(asked, one)) continue;
    if (is_behind(asked, one)) {
      out.begun_behind += one.state != Stay::State::waits ? 1 : 0;
      out.streams_behind += one.state == Stay::State::decodes ? 1 : 0;
      continue;
    }
    const double left = left_of(i);
    out.rest += std::min(left / output, 1.0);
    out.positions += one.positions;
    const bool decodes = one.state == Stay::State::decodes;
    const double prompt = decodes ? 0 : one.to_compute(), pairs = decodes ? 0 : one.pairs_to_compute();
    if (one.state != Stay::State::waits) {
      ++out.begun;
      out.begun_positions += one.positions + left;
      const double cached = one.cached;
      begun_left_.push_back(
          {prompt, pairs, left, one.app, one.place, one.positions - cached, cached, stays_[i]->print.get()});
      continue;
    }
    ++out.waiting;
    out.waiting_tokens += prompt;
    out.waiting_pairs += pairs;
    out.waiting_left += left;
  }
  return out;
}

// The prompts of those that have begun are computed one after the other, in the order of prompt_at_hand().
void EngineWork::follow_prompts(const EngineModel& model, double streams) {
  prompts_.clear();
  for (std::uint32_t i = 0; i < begun_left_.size(); ++i)
    if (begun_left_[i].prompt > 0) prompts_.push_back({{begun_left_[i].place, begun_left_[i].prompt}, i});
  if (prompts_.size() > 1) {
    count_begun();
    for (auto& [rank, i] : prompts_)
      rank.second = prompt_rank(begun_left_[i].prompt, here_[begun_left_[i].app]);
    std::ranges::sort(prompts_);
  }
  double computed = 0;
  for (const auto& [rank, i] : prompts_) {
    Begun& one = begun_left_[i];
    computed += model.prefill({one.prompt, one.pairs, streams});
    one.computed_at = computed;
  }
}

// When the next of the slots comes free, which leaves the others.
double EngineWork::take_slot() {
  if (free_at_.empty()) return 0;
  std::ranges::pop_heap(free_at_, std::greater{});
  const double at = free_at_.back();
  free_at_.pop_back();
  return at;
}

void EngineWork::give_slot(double until) {
  free_at_.push_back(until);
  std::ranges::push_heap(free_at_, std::greater{});
}

// Slots come free in the order in which their answers should end. Requests that begin before this one take
// them, then its own answers, and the requests between them.
void EngineWork::wait_for_turn(const Asked& asked, const Others& others, const EngineModel& model,
                               Ahead& out) {
  TurnForecast turn;
  if (asked.turn != nullptr) turn = *asked.turn;
  const bool foretold = asked.turn != nullptr;
  const std::uint32_t taken =
      foretold ? turn.taken - std::min(turn.taken, others.begun_behind) : others.begun;
  // Decided for this engine, and not yet in its line. Without a forecast: all that wait.
  const std::uint32_t all = others.begun + others.waiting;
  const std::uint32_t on_the_way = all - std::min(all, taken + turn.waiting);
  const std::uint32_t before = turn.before + on_the_way;
  const auto beyond_slots = [&](std::uint32_t answers) {
    const std::uint32_t needed = taken + before + answers;
    return needed - std::min(needed, asked.slots);
  };
  const std::uint32_t ends = foretold ? turn.ends + std::min(on_the_way, beyond_slots(1)) : beyond_slots(1);
  const std::uint32_t ends_between = foretold ? turn.ends_between : beyond_slots(asked.answers) - ends;
  if (ends == 0 && ends_between == 0) return;

  const double token =
      model.token({static_cast<double>(asked.slots - 1), out.positions, model.usual().prompts});
  double service = 0;  // seconds, of one that waits
  if (others.waiting > 0) {
    // Their prompts in the proportion in which the queue knows those of the requests that go first.
    const double share = turn.before > 0 && turn.waiting_tokens > 0
                             ? turn.tokens / turn.before * turn.waiting / turn.waiting_tokens
                             : 1;
    service = (model.prefill({others.waiting_tokens, others.waiting_pairs, out.streams}) * share +
               others.waiting_left * token) /
              others.waiting;
  }
  free_at_.clear();
  for (const Begun& one : begun_left_) free_at_.push_back(one.computed_at + one.output * token);
  // Handed over, and not begun: the engine is being loaded, or has not taken them yet.
  if (free_at_.size() < taken) free_at_.resize(taken, service);
  std::uint32_t left = before;
  for (; left >= ends && left > 0 && free_at_.size() < kMostFollowed; --left) free_at_.push_back(service);
  std::ranges::make_heap(free_at_, std::greater{});
  const std::uint32_t followed = std::min(ends, kMostFollowed);
  for (std::uint32_t i = 0; i < followed; ++i) {
    out.turn = take_slot();
    if (left > 0) give_slot(out.turn + service);
    left -= left > 0 ? 1 : 0;
  }
  out.turn += service * (ends - followed) / asked.slots;
  if (asked.answers < 2) return;

  // The first answers wait for the first prompt. Further prompts are computed beside answers that decode.
  const double beside = std::min(asked.answers, asked.slots);
  const double positions = out.positions + (asked.tokens + asked.output / 2) * beside;
  const double own = model.first_step() + asked.output * model.token({static_cast<double>(asked.slots - 1),
                                                                      positions, out.prompts_later});
  const double prompt = model.prefill({asked.tokens, pairs_of(asked.tokens, 0), out.streams});
  give_slot(out.turn + prompt + own);
  const std::uint32_t turns = turn.between + asked.answers - 1;
  const auto takes = [&](std::uint32_t i) {  // the requests between stand evenly among the answers
    const auto others_until = [&](std::uint64_t n) { return n * turn.between / turns; };
    return others_until(i + 1) > others_until(i) ? service : own;
  };
  std::uint32_t n = 0;
  for (; n + ends_between < turns && n < kMostFollowed; ++n) give_slot(out.turn + prompt + takes(n));
  double last = out.turn;
  const std::uint32_t followed_between = std::min(ends_between, kMostFollowed);
  for (std::uint32_t i = 0; i < followed_between; ++i) {
    last = std::max(take_slot(), last);
    if (n < turns) give_slot(last + takes(n++));
  }
  // Beyond them at the pace of all slots.
  const double mean = (own * (asked.answers - 1) + service * turn.between) / turns;
  out.last_turn = last - out.turn + mean * (ends_between - followed_between) / asked.slots;
}

namespace {

// Tokens at the beginning of the request's prompt that another one begins with, too.
double shared_tokens(const EngineWork::Asked& asked, const PromptPrint* other) {
  if (asked.print == nullptr || other == nullptr || asked.print->bytes == 0) return 0;
  return asked.prompt * static_cast<double>(common_bytes(*asked.print, *other)) /
         static_cast<double>(asked.print->bytes);
}

}  // namespace

// The scheduler admits a prompt when the KV has blocks for all of it, beside a spare one for each sequence
// that runs, and nobody overtakes a prompt that waits for them. Those that run grow, and free theirs at their
// end. Sequences of one app share what they found in the cache, and the request what its app's sequences hold
// of it.
void EngineWork::wait_for_room(const Asked& asked, const Others& others, const EngineModel& model,
                               Ahead& out) {
  if (!(asked.kv_tokens > 0) || begun_left_.empty()) return;
  const std::uint32_t before =
      std::min(asked.turn != nullptr ? asked.turn->before : others.waiting, asked.slots - 1);
  const double waiting = others.waiting > 0 ? others.waiting_tokens / others.waiting : 0;
  // There is room if nothing is shared and all answers have their full length: mostly nothing else is asked.
  if (others.begun_positions + asked.prompt + before * waiting + kBlock * (1 + others.begun + before) <=
      asked.kv_tokens)
    return;
  const double token =
      std::max(model.token({std::max(streams_ - 1.0, 0.0), positions_, model.usual().prompts}), 1e-9);
  rooms_.clear();
  std::ranges::fill(here_, 0);
  const auto known = numbers_.find(asked.app);
  for (const Begun& one : begun_left_) {
    const bool shares = here_[one.app]++ > 0, is_own = known != numbers_.end() && known->second == one.app;
    rooms_.push_back({one.computed_at + one.output * token, one.own + (shares ? 0 : one.cached), one.output,
                      is_own ? std::min(asked.prompt - asked.tokens, shared_tokens(asked, one.print)) : 0});
  }
  const auto has_room = [&](double then) {
    double held = 0, prefix = 0;
    std::uint32_t run = 0;
    for (const Room& one : rooms_) {
      if (one.end <= then) continue;
      ++run;
      prefix = std::max(prefix, one.prefix);
      held += one.held + std::min(then / token, one.grows);
    }
    const std::uint32_t first = std::min(before, asked.slots - 1 - std::min(run, asked.slots - 1));
    return held + asked.prompt - prefix + first * waiting + kBlock * (1 + run + first) <= asked.kv_tokens;
  };
  const double slot = out.turn;
  if (has_room(slot)) return;
  std::ranges::sort(rooms_, {}, &Room::end);
  for (const Room& one : rooms_) {
    if (one.end <= slot) continue;
    out.turn = one.end;
    out.waits_for_room = true;
    if (has_room(one.end)) return;
  }
}

// A prompt `behind` is computed once the answers of others that are there are over. The share of the time
// that it has until then is left out.
void EngineWork::wait_for_others(const Asked& asked, const EngineModel& model, Ahead& out) const {
  if (place_rank(asked.settings.place) != kBehind) return;
  const double token = model.token({std::max(out.streams - 1.0, 0.0), out.positions, 0});
  for (const Begun& one : begun_left_)
    if (one.place != kBehind) out.turn = std::max(out.turn, one.computed_at + one.output * token);
}

// The engine computes the prompts at hand in the order of place_rank() and prompt_rank().
void EngineWork::wait_for_prompts(const Asked& asked, const Others& others, const EngineModel& model,
                                  Ahead& out) {
  // The earliest of those that wait are not in its line. The engine gets them before this request.
  const std::uint32_t in_line = asked.turn != nullptr ? std::min(asked.turn->waiting, others.waiting) : 0;
  const std::uint32_t all_arrived = out.turn > 0 ? 0 : others.waiting - in_line;
  std::uint32_t arrived = all_arrived;
  const auto at_engine = [&](const Open& one) {
    if (is(asked, one)) return false;
    if (one.state != Stay::State::waits) return true;
    return arrived > 0 && arrived-- > 0;
  };
  std::ranges::fill(here_, 0);
  for (const Open& one : open_)
    if (at_engine(one)) ++here_[one.app];
  arrived = all_arrived;
  const auto known = numbers_.find(asked.app);
  const std::uint32_t own_here = known == numbers_.end() ? 0 : here_[known->second];
  out.rank = prompt_rank(asked.tokens, own_here + 1);
  const std::pair own(place_rank(asked.settings.place), out.rank);
  double pairs_behind = 0;
  for (const Open& one : open_) {
    if (!at_engine(one) || one.state == Stay::State::decodes || is_behind(asked, one)) continue;
    const double left = one.to_compute();
    if (std::pair<std::uint32_t, double>(one.place, prompt_rank(left, here_[one.app])) > own) {
      out.tokens_behind += left;
      pairs_behind += one.pairs_to_compute();
      continue;
    }
    out.tokens += left;
    out.pairs += one.pairs_to_compute();
  }
  if (out.turn > 0) {  // they are computed while it waits for its slot, and then those behind
    const double first = out.tokens > 0 ? model.prefill({out.tokens, out.pairs, out.streams}) : 0;
    const double share = std::max(1 - out.turn / std::max(first, 1e-9), 0.0);
    out.tokens *= share;
    out.pairs *= share;
    const double behind = model.prefill({out.tokens_behind, pairs_behind, out.streams});
    const double rest = std::max(out.turn - first, 0.0);
    out.tokens_behind *= std::max(1 - rest / std::max(behind, 1e-9), 0.0);
  }
}

// Expected arrivals: the Poisson median of requests a second times seconds, as many as get a slot. Prompts
// that rank before what is left of the request's own go first. All others, and those that come during its
// answer, are computed beside the answer, like those behind it: a token then waits for a part of one.
void EngineWork::expect_arrivals(const Asked& asked, const Others& others, const EngineModel& model,
                                 Ahead& out) const {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  const double rate = arrivals_.per_second() * model.slowdown(busy());  // by the engine's clock
  const double token = model.token({std::max(streams_ - 1.0, 0.0), positions_, 0});
  const auto slots_within = [&](double seconds) {
    const auto ends = std::ranges::count_if(
        begun_left_, [&](const Begun& one) { return one.computed_at + one.output * token <= seconds; });
    return std::max(static_cast<double>(asked.slots) - 1 - others.begun + static_cast<double>(ends), 0.0);
  };
  const auto before_rank = [&](double rank) -> Arrivals::Prompts {
    if (asked.settings.place == config::QueuePlace::ahead) return {};
    return arrivals_.below(asked.settings.place == config::QueuePlace::behind ? kAll : rank);
  };
  const Arrivals::Prompts shorter = before_rank(out.rank);
  const Arrivals::Prompts than_rest = before_rank(out.rank / 2);  // half of its own is computed on average
  const double ahead = out.tokens > 0 ? model.prefill({out.tokens, out.pairs, out.streams}) : 0;
  const double own =
      model.prefill({asked.tokens, pairs_of(asked.tokens, asked.prompt - asked.tokens), out.streams});
  const double first = rate * ahead * shorter.share, meanwhile = rate * own * than_rest.share;
  double overtake = Arrivals::median_of(first + meanwhile);
  if (overtake > 0) overtake = std::min(overtake, slots_within(out.turn + ahead + own));
  if (overtake > 0) {
    const double part = first / (first + meanwhile);
    out.tokens_to_come = overtake * (part * shorter.tokens + (1 - part) * than_rest.tokens);
    out.pairs_to_come = overtake * (part * shorter.pairs + (1 - part) * than_rest.pairs);
  }

  const double steps = std::max(asked.output, 1.0);
  const engine::StepBudget budget = engine::step_budget(model.step_cost(), false);
  const double spent = model.token({out.streams_later, out.positions, 0});
  const double most =  // tokens of prompts in a step
      std::max(budget.cost.fit(std::max(budget.part - spent, budget.part / 4), 0, kStepTokens), 1U);
  const double longer = (out.turn + ahead) * (1 - shorter.share) + own * (1 - than_rest.share);
  const double mean = arrivals_.below(kAll).tokens;
  double prompts = std::min(out.tokens_behind / steps, most);
  for (int round = 0; round < 2; ++round) {  // what comes makes the answer longer
    const double time = steps * model.token({out.streams_later, out.positions, prompts});
    double come = Arrivals::median_of(rate * (longer + time));
    if (come > 0) come = std::min(come, slots_within(out.turn + ahead + own + time));
    prompts = std::min((out.tokens_behind + come * mean) / steps, most);
  }
  if (others.waiting > 0) prompts = std::max(prompts, std::min(model.usual().prompts, most));
  out.prompts_later = prompts + asked.own_prompts;
  out.step_prompts = most;
}

// A step keeps the strictest budget of the sequences that it may hold, but for a sequence alone: prompts need
// more steps, each of which computes the streams, too, and a stream has less of others' prompts in each of
// its tokens. The scheduler's own rules say how long such a step is. A budget that lengthens steps does so
// only while nobody arrives, and has no term here.
void EngineWork::keep_step_budgets(const Asked& asked, const EngineModel& model, Ahead& out) const {
  engine::AskedBudgets budgets;
  budgets.add(asked.settings.step_budget);
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const Open& one = open_[i];
    if (is(asked, one) || one.state == Stay::State::waits) continue;
    budgets.add(one.has_step_budget ? stays_[i]->settings.step_budget : std::nullopt);
  }
  if (!budgets.strictest || *budgets.strictest > engine::kLongestStep || budgets.sequences < 2) return;
  const engine::StepCost cost = model.step_cost();
  const engine::StepBudget budget = engine::step_budget(engine::step_budget(cost, false), budgets);
  const double spent = streams_ > 0 ? model.token({streams_ - 1.0, positions_, 0}) : cost.step;
  const auto tokens_of = [&](double most) {  // that a step computes beside the streams
    return static_cast<double>(std::max(cost.fit(std::max(most - spent, most / 4), 0, kStepTokens), 1U));
  };
  const double within = std::max(budget.most - spent, cost.added(0, engine::kLeastStepTokens));
  const double kept = std::max(cost.fit(within, 0, kStepTokens), 1U);
  const double whole = tokens_of(budget.whole), part = tokens_of(budget.part);
  const double usual = asked.tokens <= whole ? std::max(asked.tokens, 1.0) : part;
  if (kept < usual) out.shorter_steps = spent * (1 / kept - 1 / usual);
  out.prompts_later = std::min(out.prompts_later, kept);
}

EngineWork::Pace EngineWork::pace(TimePoint now, const EngineModel& model) {
  advance_prompts(now, model);
  double tokens = 0, pairs = 0;
  for (const Open& one : open_) {
    if (one.state != Stay::State::prefills) continue;
    tokens += one.to_compute();
    pairs += one.pairs_to_compute();
  }
  return {model.token({std::max(streams_ - 1.0, 0.0), positions_, 0}),
          tokens > 0 ? model.prefill({tokens, pairs, static_cast<double>(streams_)}) : 0};
}

double EngineWork::until_done(TimePoint now, const EngineModel& model) {
  const Pace pace = this->pace(now, model);
  double longest = 0;
  for (std::size_t i = 0; i < open_.size(); ++i)
    if (open_[i].state != Stay::State::waits) longest = std::max(longest, left_of(i));
  return (longest * pace.token + pace.prompts) * model.slowdown(busy());
}

EngineWork::Ahead EngineWork::ahead(const Asked& asked, const EngineModel& model, TimePoint now) {
  advance(now);
  advance_prompts(now, model);
  const Others others = look_at_others(asked);
  const auto& usual = model.usual();
  Ahead out;
  out.streams = streams_ - others.streams_behind;
  follow_prompts(model, out.streams);
  out.begun = others.begun;
  out.waiting = others.waiting;
  // Answers that end are followed by others, as they usually were with so many here.
  const double known = others.begun + others.waiting;
  const double beside = std::min<double>(known, asked.slots - 1);
  const double overlap = known > 0 ? std::min(others.rest * beside / known, beside) : 0;
  out.streams_later =
      others.waiting >= asked.slots
          ? beside
          : overlap + (beside - overlap) * (beside > 0 ? std::min(usual.streams / beside, 1.0) : 0);
  out.positions = known > 0 ? others.positions / known * out.streams_later : 0;
  out.prompts_later = asked.own_prompts;  // until more is known
  wait_for_turn(asked, others, model, out);
  wait_for_others(asked, model, out);
  wait_for_room(asked, others, model, out);
  wait_for_prompts(asked, others, model, out);
  expect_arrivals(asked, others, model, out);
  keep_step_budgets(asked, model, out);
  return out;
}

}  // namespace flyball::predict
