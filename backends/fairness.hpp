// Fairness among the apps that share an engine: one contract, kept in two places. The daemon's queue
// (daemon/route/fair_queue) chooses which request goes to the engine next; the engine's scheduler
// (backends/engine/scheduler) chooses what of the requests there a step computes.
//
// 1. An app's presence is the number of its requests at the engine: an answer that was handed over and
//    is not over counts one. The queue counts it by app; the scheduler counts the sequences that hold a
//    slot by owner.
// 2. A newcomer is an app without presence. A guest is an app while another app has at least
//    kGuestFactor times its presence; every newcomer is a guest.
// 3. An app yields a place while a newcomer, once it has one request, would be its guest.
// 4. The queue hands over as many requests as the engine has slots, with two exceptions. It keeps the
//    last of several slots for a newcomer, for FairQueue::kRemembered requests begun after another app
//    came. When every slot is taken it hands over one request more, a newcomer's, if an app yields a
//    place; beyond that one it hands over nothing, even if an app yields. A newcomer takes the kept slot
//    or the additional place only if it has had at most FairQueue::kAhead more service (clause 6) than
//    the app that is next. An answer that resumes from another engine is handed over at once, whatever
//    runs.
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
#pragma once

#include <cstdint>

namespace flyball {

inline constexpr std::uint32_t kGuestFactor = 2;

constexpr bool is_guest(std::uint32_t presence, std::uint32_t of_another) noexcept {
  return std::uint64_t{kGuestFactor} * presence <= of_another;
}
constexpr bool yields_place(std::uint32_t presence) noexcept {
  return is_guest(1, presence);
}

}  // namespace flyball
