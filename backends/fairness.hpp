// Fairness among the apps that share an engine: one contract, and its rules as pure functions. The daemon's
// queue (daemon/route/fair_queue) chooses which request goes to the engine next; the engine's scheduler
// (backends/engine/scheduler) chooses what of the requests there a step computes; the predictor
// (daemon/predict) foretells both. Each calls the functions below on its own state.
//
// 1. An app's presence is the number of its requests at the engine: an answer that was handed over and
//    is not over counts one. The queue counts it by app; the scheduler counts the sequences that hold a
//    slot by owner.
// 2. A newcomer is an app without presence. A guest is an app while another app has at least
//    kGuestFactor times its presence; every newcomer is a guest.
// 3. An app yields a place while a newcomer, once it has one request, would be its guest.
// 4. The queue hands over as many requests as the engine has slots, with two exceptions. It keeps the
//    last of several slots for a newcomer, for kRemembered requests begun after another app came. When
//    every slot is taken it hands over one request more, a newcomer's, if an app yields a place; beyond
//    that one it hands over nothing, even if an app yields. A newcomer takes the kept slot or the
//    additional place only if it has had at most kMostLead more service (clause 6) than the app that is
//    next. An answer that resumes from another engine is handed over at once, whatever runs.
// 5. The scheduler makes no newcomer wait for a slot longer than a step while another app yields a
//    place: the latest sequence of the app with the largest presence gives its slot, and goes on when a
//    slot is free again.
// 6. Among requests that wait, the queue goes by service: tokens computed for the app, over its weight.
//    The scheduler knows no weights. It goes by presence: guests are admitted first, and what is left
//    of a prompt counts times the presence of its app, so that no app gains by sending more.
// 7. Before the scheduler a prompt is prepared (template, tokenizer): small and large prompts apart, and
//    of each the apps take turns (backends/engine/preparation). The order of arrival that the scheduler
//    goes by is the one in which prompts are ready; an app's own small prompt may pass its large one.
// 8. The scheduler applies the place of a request (config::RequestSettings) below clauses 5 and 6: among
//    guests of one presence, and among all others. A step budget up to kLongestStep bounds a guest's prompt,
//    too, where a sequence of another app asks for it.
// 9. Requests `behind` are for times in which nobody else is there. Each app has a line of its own for them,
//    and they give it no presence; among them, prompts go by what their app has there. One of them at a time
//    has its turn as any other, but for the rights of a newcomer. While it is at the engine, the queue hands
//    over others as if the rest of them were not there, and more of them only while nobody else waits. For
//    others, the scheduler takes the slots and the KV of all but one of them (at an engine with one slot of
//    that one, too, until three have overtaken it), and lets them add kBehindShare to the time of the others'
//    steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "config/request_settings.hpp"

namespace flyball {

inline constexpr std::uint32_t kGuestFactor = 2;
// For so many requests begun after another app came, the last slot is kept: an app that comes again to an
// engine that another one floods begins at once, and an app that is alone has every slot.
inline constexpr std::uint64_t kRemembered = 100;
// Service by which a newcomer may be ahead of the app that is next. With more it would get more than its
// share.
inline constexpr double kMostLead = 4096;

// The part of the time of others' steps that those `behind` may add to them: they never stand still.
inline constexpr double kBehindShare = 0.05;

constexpr bool is_newcomer(std::uint32_t presence) noexcept {
  return presence == 0;
}
constexpr bool is_guest(std::uint32_t presence, std::uint32_t of_another) noexcept {
  return std::uint64_t{kGuestFactor} * presence <= of_another;
}
constexpr bool yields_place(std::uint32_t presence) noexcept {
  return is_guest(1, presence);
}

// The scheduler's order of prompts, least first: what is left of one, in any unit, by its app's presence.
constexpr double prompt_rank(double left, std::uint32_t presence) noexcept {
  return left * presence;
}
// Places come before that: the least is computed first.
constexpr std::uint32_t place_rank(config::QueuePlace place) noexcept {
  return place == config::QueuePlace::ahead ? 0 : place == config::QueuePlace::usual ? 1 : 2;
}

// The apps whose requests the queue may hand over now.
enum class Handover : std::uint8_t { none, newcomers, all };
// taken: requests at the engine. others_come: an app besides the next one came lately.
constexpr Handover handover(std::uint32_t slots, std::uint32_t taken, bool one_yields,
                            bool others_come) noexcept {
  if (taken > slots) return Handover::none;
  if (taken == slots) return one_yields ? Handover::newcomers : Handover::none;
  return slots > 1 && taken + 1 == slots && others_come ? Handover::newcomers : Handover::all;
}

// An app as the queue of one engine knows it.
struct QueuedApp {
  static constexpr std::uint64_t kNone = UINT64_MAX;
  double service = 0;           // tokens computed for the app, over its weight
  std::uint64_t first = kNone;  // arrival number of the request that has waited longest; kNone: none waits
  std::uint64_t came = 0;       // requests that the queue had handed over when the app came last
  std::uint32_t presence = 0;
  bool behind = false;  // these are its requests `behind`

  bool waits() const noexcept { return first != kNone; }
  bool before(const QueuedApp& other) const noexcept {
    return std::pair(service, first) < std::pair(other.service, other.first);
  }
};

// An app that comes makes the queue keep its last slot for newcomers.
constexpr bool came_lately(const QueuedApp& app, std::uint64_t handed_over) noexcept {
  return handed_over - app.came <= kRemembered;
}

// The apps of one queue, or those of one place, as far as the next turn depends on them.
struct TurnCandidates {
  const QueuedApp* next = nullptr;      // of those that wait, the first by QueuedApp::before()
  const QueuedApp* newcomer = nullptr;  // the same of the newcomers
  const QueuedApp *came_last = nullptr, *came_before = nullptr;  // the two that came last
  bool one_yields = false;                                       // an app yields a place
  std::uint32_t taken = 0;                                       // their requests at the engine

  void add(const QueuedApp& app) noexcept {
    one_yields = one_yields || yields_place(app.presence);
    taken += app.presence;
    add_latest(&app);
    if (!app.waits()) return;
    next = first(next, &app);
    if (is_newcomer(app.presence)) newcomer = first(newcomer, &app);
  }
  void add_latest(const QueuedApp* app) noexcept {
    if (app == nullptr) return;
    if (came_last == nullptr || app->came > came_last->came)
      came_before = std::exchange(came_last, app);
    else if (came_before == nullptr || app->came > came_before->came)
      came_before = app;
  }
  // An app besides `next` came lately.
  bool others_come(std::uint64_t handed_over) const noexcept {
    const QueuedApp* const other = came_last == next ? came_before : came_last;
    return other != nullptr && came_lately(*other, handed_over);
  }
  static const QueuedApp* first(const QueuedApp* one, const QueuedApp* other) noexcept {
    if (one == nullptr || other == nullptr) return one == nullptr ? other : one;
    return other->before(*one) ? other : one;
  }
};

// The app whose first request the queue hands over now, by clauses 4 and 9; nullptr: none.
inline const QueuedApp* turn_of(const TurnCandidates& usual, const TurnCandidates& behind,
                                std::uint32_t slots, std::uint64_t handed_over) noexcept {
  if (behind.taken > 0 && usual.next == nullptr)
    return usual.taken + behind.taken < slots ? behind.next : nullptr;
  TurnCandidates among = usual;
  if (behind.taken == 0)
    among.next = TurnCandidates::first(usual.next, behind.next);
  else if (slots > 1)
    ++among.taken;  // one of those behind keeps its slot
  if (among.next == nullptr) return nullptr;
  if (among.next->behind) return among.taken < slots ? among.next : nullptr;
  const Handover allowed = handover(slots, among.taken, among.one_yields, among.others_come(handed_over));
  if (allowed == Handover::none) return nullptr;
  if (allowed == Handover::all) return among.next;
  const bool leads = among.newcomer != nullptr && among.newcomer->service > among.next->service + kMostLead;
  return leads ? nullptr : among.newcomer;
}

// Index of the app whose first request the queue hands over now; nullopt: none. handed_over: requests so far.
inline std::optional<std::size_t> next_turn(std::span<const QueuedApp> apps, std::uint32_t slots,
                                            std::uint64_t handed_over) noexcept {
  TurnCandidates usual, behind;
  for (const QueuedApp& app : apps) (app.behind ? behind : usual).add(app);
  const QueuedApp* const turn = turn_of(usual, behind, slots, handed_over);
  return turn == nullptr ? std::nullopt : std::optional(static_cast<std::size_t>(turn - apps.data()));
}

// When a request gets its turn, as the queue foretells it: nobody else comes, nothing more is generated, and
// requests end in the order in which they began.
struct TurnForecast {
  std::uint32_t before = 0;  // other requests that begin first
  std::uint32_t ends = 0;    // requests at the engine that end first
  double tokens = 0;         // prompts of those that begin first
  // The same from the turn of the request's first answer to that of its last one.
  std::uint32_t between = 0, ends_between = 0;
  // Other requests now, at the engine and in line, and the prompts of those in line.
  std::uint32_t taken = 0, waiting = 0;
  double waiting_tokens = 0;
};

}  // namespace flyball
