#include "daemon/predict/engine_work.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "backends/fairness.hpp"

namespace flyball::predict {
namespace {

// More that wait than this are taken to be like those before them.
constexpr std::size_t kMostAhead = 64;

}  // namespace

void Group::advance(TimePoint now) noexcept {
  busy_seconds += busy * seconds_between(at, now);
  at = std::max(at, now);
}

void EngineWork::advance(TimePoint now) noexcept {
  group_->advance(now);
  const double passed = seconds_between(done_.at, now);
  done_.stream_seconds += streams_ * passed;
  done_.position_seconds += positions_ * passed;
  done_.request_seconds += begun_ * passed;
  done_.at = std::max(done_.at, now);
}

Stay& EngineWork::enter(Stay stay) {
  return stays_.emplace_back(std::move(stay));
}

Stay* EngineWork::find(std::uint64_t id) {
  const auto it = std::ranges::find(stays_, id, &Stay::id);
  return it == stays_.end() ? nullptr : &*it;
}

// Of the prompts at hand the engine computes the shortest first: tokens of it that should be computed.
double EngineWork::progress(TimePoint now, const EngineModel& model) const {
  double least = 0;
  for (const Stay& stay : stays_)
    if (stay.state == Stay::State::prefills && (least == 0 || stay.uncached() < least))
      least = stay.uncached();
  if (least == 0) return 0;
  const double whole = model.prefill({least, pairs_of(least, 0), static_cast<double>(streams_)});
  constexpr double kMost = 0.9;  // it is not done yet
  return least * std::min(seconds_between(prompts_at_, now) / std::max(whole * sharers(), 1e-6), kMost);
}

WorkDone EngineWork::done(TimePoint now, const EngineModel& model) {
  advance(now);
  WorkDone out = done_;
  out.prefilled += progress(now, model);
  out.busy_seconds = group_->busy_seconds;
  return out;
}

void EngineWork::begin(Stay& stay, TimePoint now, const EngineModel& model) {
  if (stay.state != Stay::State::waits) return;
  advance(now);
  if (std::ranges::none_of(stays_, [](const Stay& s) { return s.state == Stay::State::prefills; }))
    prompts_at_ = now;
  stay.at_begin = done(now, model);
  stay.state = Stay::State::prefills;
  if (begun_++ == 0) ++group_->busy;
}

void EngineWork::first_token(Stay& stay, TimePoint now, const EngineModel& model) {
  if (stay.state != Stay::State::prefills) return;
  advance(now);
  done_.prefilled += stay.uncached();
  done_.pairs += pairs_of(stay.uncached(), stay.cached);
  prompts_at_ = now;
  stay.state = Stay::State::decodes;
  stay.first = now;
  stay.at_first = done(now, model);
  ++streams_;
  positions_ += stay.positions();
}

void EngineWork::generated(Stay& stay, std::uint32_t tokens, TimePoint now) {
  if (stay.state != Stay::State::decodes) return;
  advance(now);
  stay.generated += tokens;
  positions_ += tokens;
  done_.decoded += tokens;
}

void EngineWork::leave(std::uint64_t id, TimePoint now) {
  const auto it = std::ranges::find(stays_, id, &Stay::id);
  if (it == stays_.end()) return;
  advance(now);
  if (it->state == Stay::State::decodes) {
    --streams_;
    positions_ = streams_ == 0 ? 0 : positions_ - it->positions();
  }
  if (it->state == Stay::State::prefills) prompts_at_ = now;
  if (it->state != Stay::State::waits && --begun_ == 0) --group_->busy;
  stays_.erase(it);
}

EngineWork::Presence& EngineWork::presence(const AnswerLength& app) {
  const auto it = std::ranges::find(apps_, &app, &Presence::app);
  return it == apps_.end() ? apps_.emplace_back(&app) : *it;
}

// Those that get a slot before it: all of its app that wait, and of each other app as many, apps taking
// turns, and one more. A newcomer goes by other newcomers alone.
std::uint32_t EngineWork::waiting_ahead(const Presence& own, bool newcomer) const {
  std::uint32_t n = own.waiting;
  for (const Presence& app : apps_)
    if (app.app != own.app && !(newcomer && app.begun > 0)) n += std::min(app.waiting, own.waiting + 1);
  return n;
}

EngineWork::Ahead EngineWork::ahead(const AnswerLength& app, std::uint64_t request, double tokens,
                                    double output, std::uint32_t slots, const EngineModel& model,
                                    TimePoint now) {
  Ahead out;
  apps_.clear();
  std::uint64_t before = UINT64_MAX;  // ids from here on came later
  if (request != 0)
    for (const Stay& stay : stays_)
      if (stay.request == request) before = std::min(before, stay.id);
  std::uint32_t waiting = 0;
  for (const Stay& stay : stays_) {
    if (stay.request == request && request != 0) continue;
    const bool waits = stay.state == Stay::State::waits;
    if (waits && stay.id > before) continue;
    Presence& theirs = presence(*stay.app);
    ++(waits ? theirs.waiting : theirs.begun);
    waiting += waits ? 1 : 0;
  }
  const Presence own = presence(app);
  std::uint32_t largest = 0, begun = 0;
  bool others = false;
  for (const Presence& one : apps_) {
    begun += one.begun;
    if (one.app == &app) continue;
    largest = std::max(largest, one.begun);
    others = others || one.begun + one.waiting > 0;
  }
  const bool newcomer = own.begun == 0 && own.waiting == 0;
  const std::uint32_t queue = std::min(waiting_ahead(own, newcomer), waiting);
  // The queue keeps the last slot for a newcomer while other apps come, and hands over one request more for
  // it where an app yields a place (backends/fairness.hpp).
  const bool yields = newcomer && yields_place(largest);
  const std::uint32_t usable = yields ? slots + 1 : slots > 1 && others && !newcomer ? slots - 1 : slots;

  out.streams = streams_;
  const auto& usual = model.usual();
  double rest = 0;  // of the answers at hand, what overlaps with this one
  double prompts_at_hand = 0, positions = 0, known = 0;
  for (const Stay& stay : stays_) {
    if (stay.request == request && request != 0) continue;
    if (stay.state == Stay::State::waits && stay.id > before) continue;
    known += 1;
    rest += std::min(stay.left() / std::max(output, 1.0), 1.0);
    positions += stay.positions();
    if (stay.state != Stay::State::decodes) prompts_at_hand += stay.uncached();
  }
  // Answers that end are followed by others, as they usually were with so many here.
  const double beside = std::min<double>(known, slots > 0 ? slots - 1 : 0);
  const double overlap = known > 0 ? std::min(rest * beside / known, beside) : 0;
  const double goes_on = usual.requests > 0 ? std::min(known / usual.requests, 1.0) : 0;
  out.streams_later =
      waiting >= slots
          ? beside
          : overlap + (beside - overlap) * (beside > 0 ? std::min(usual.streams / beside, 1.0) : 0);
  out.positions = known > 0 ? positions / known * out.streams_later : 0;
  out.prompts_later = usual.prompts * goes_on;

  if (begun + queue >= usable) {
    // Slots in the order in which they come free, and those who take them first.
    const double token = model.token({static_cast<double>(slots - 1), out.positions, usual.prompts});
    free_at_.clear();
    double prompt_sum = 0, left_sum = 0;
    for (const Stay& stay : stays_) {
      if (stay.request == request && request != 0) continue;
      const double n = stay.uncached(), left = stay.left() * token;
      const double prompt = model.prefill({n, pairs_of(n, stay.cached), out.streams});
      if (stay.state == Stay::State::waits) {
        prompt_sum += prompt;
        left_sum += left;
      } else {
        free_at_.push_back(left + (stay.state == Stay::State::prefills ? prompt : 0));
      }
    }
    while (free_at_.size() < usable) free_at_.push_back(0);
    std::ranges::make_heap(free_at_, std::greater{});
    const auto take = [&] {
      std::ranges::pop_heap(free_at_, std::greater{});
      const double at = free_at_.back();
      free_at_.pop_back();
      return at;
    };
    while (free_at_.size() > usable) take();  // more than usable slots are taken: those free none
    const double service = waiting > 0 ? (prompt_sum + left_sum) / waiting : 0;
    const std::size_t simulated = std::min<std::size_t>(queue, kMostAhead);
    double at = 0;
    for (std::size_t i = 0; i < simulated; ++i) {
      at = take();
      free_at_.push_back(at + service);
      std::ranges::push_heap(free_at_, std::greater{});
    }
    out.turn = take() + service * static_cast<double>(queue - simulated) / usable;
  }

  // Prompts at hand that have less left, times their app's presence.
  const double own_key = tokens * (own.begun + own.waiting + 1);
  double shortest = 0;
  for (const Stay& stay : stays_) {
    if (stay.state == Stay::State::decodes || (stay.request == request && request != 0)) continue;
    if (stay.state == Stay::State::waits && (out.turn > 0 || stay.id > before)) continue;
    const Presence& theirs = presence(*stay.app);
    const double n = stay.uncached();
    if (n * std::max(theirs.begun + theirs.waiting, 1U) > own_key) continue;
    out.tokens += n;
    out.pairs += pairs_of(n, stay.cached);
    if (stay.state == Stay::State::prefills && (shortest == 0 || n < shortest)) shortest = n;
  }
  if (shortest > 0) {
    const double computed = std::min(progress(now, model), out.tokens);
    out.pairs *= 1 - computed / out.tokens;
    out.tokens -= computed;
  }
  if (out.turn > 0 && out.tokens > 0) {  // they are computed while it waits for its slot
    const double whole = model.prefill({out.tokens, out.pairs, out.streams});
    const double share = std::max(1 - out.turn / std::max(whole, 1e-9), 0.0);
    out.tokens *= share;
    out.pairs *= share;
  }
  return out;
}

}  // namespace flyball::predict
