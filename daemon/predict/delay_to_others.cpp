#include "daemon/predict/delay_to_others.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "backends/fairness.hpp"

namespace flyball::predict {
namespace {

using Asked = EngineWork::Asked;
using Ahead = EngineWork::Ahead;

// The request's work at its engine, in seconds of the clock.
struct Presence {
  double prompt = 0;      // until its first token
  double added = 0;       // that all its prompts add to the steps of a stream
  double steps = 1;       // tokens that the stream gets meanwhile
  double tokens = 0;      // of each of its own streams
  double each_token = 0;  // that these streams add to each token of another one
};

Presence presence_of(const Asked& asked, const Ahead& ahead, const Course& course, const EngineModel& model,
                     double slower) {
  Presence out;
  out.prompt = course.prompt;
  out.tokens = std::max(course.ends - course.begins - course.prompt, 0.0) / std::max(course.token, 1e-9);
  const double further = asked.own_prompts * out.tokens;
  const double prompts = asked.tokens + further;
  const double pairs = pairs_of(asked.tokens, asked.prompt - asked.tokens) + further * (asked.prompt + 1) / 2;
  const engine::StepCost cost = model.step_cost();
  out.added = (cost.token * prompts + cost.pair * pairs) * slower;
  out.steps = std::max(std::ceil(prompts / ahead.step_prompts), 1.0);
  const double streams = std::min(asked.answers, asked.slots);
  const double positions = (asked.prompt + asked.output / 2) * streams;
  out.each_token = (model.token({streams, positions, 0}) - model.token({0, 0, 0})) * slower;
  return out;
}

// The delay of an answer with `left` tokens, which meets this part of the request's prompts and so many
// tokens of its streams. One that decodes, or will by then, has a part of the prompts in each of its steps;
// one whose prompt goes behind the request's waits for the whole of it.
double delay_of(double left, bool goes_first, const Presence& own, double part, double tokens) {
  const double steps = goes_first ? own.steps * part : 0;
  const double prompts = goes_first ? own.added * std::min(left / own.steps, part) : own.prompt * part;
  return prompts + own.each_token * std::clamp(left - steps, 0.0, tokens);
}

void add_here(const Asked& asked, const Ahead& ahead, const Course& course, const Group::Member& member,
              DelayToOthers& out) {
  const EngineWork& work = *member.work;
  const EngineModel& model = *member.model;
  const double slower = model.slowdown(work.busy());
  const Presence own = presence_of(asked, ahead, course, model, slower);
  // A request behind it in the line waits for its part of the stay, by the pace at which all slots come free.
  const double stay = course.ends - course.begins;
  const double for_slot = stay * std::min(asked.answers, asked.slots) / asked.slots;
  const std::uint32_t all = ahead.begun + ahead.waiting + asked.answers;
  double behind = 0;  // the part of the waiting requests that is behind it
  if (asked.turn != nullptr && asked.turn->waiting > asked.turn->before && ahead.waiting > 0)
    behind = std::min<double>(asked.turn->waiting - asked.turn->before, ahead.waiting) / ahead.waiting;
  const double step = model.token({std::max(ahead.streams - 1, 0.0), ahead.positions, 0}) * slower;
  const double until_begun = course.begins / std::max(step, 1e-9);  // tokens of a stream
  work.each_interactive(asked.request, [&](const auto& one) {
    const double left = one.left;
    if (one.state == Stay::State::waits && all > asked.slots) {
      out.here += behind * for_slot + (1 - behind) * delay_of(left, true, own, 1, own.tokens);
      return;
    }
    const bool decodes = one.state == Stay::State::decodes;
    out.here += delay_of(decodes ? std::max(left - until_begun, 0.0) : left,
                         decodes || work.goes_first(one, asked, ahead), own, 1, own.tokens);
  });
  // An arriving request meets half of the prompts and then the answer, or half of the answer.
  const InteractiveArrivals::Mean& one = member.coming;
  const double in_prompts = delay_of(one.output, true, own, 0.5, own.tokens),
               in_answer = delay_of(one.output, true, own, 0, own.tokens / 2);
  out.to_come += one.per_second * (own.prompt * in_prompts + (stay - own.prompt) * in_answer +
                                   (all >= asked.slots ? stay * for_slot / 2 : 0));
}

// The time that one of the requests to come takes with the engine alone, in seconds.
double time_of(const InteractiveArrivals::Mean& one, const EngineModel& model) {
  return model.first_step() + model.prefill({one.tokens, pairs_of(one.tokens, 0), 0}) +
         one.output * model.token({});
}

// A request placed `behind` slows others by kBehindShare until it ends.
void add_behind(const Course& course, const Group::Member& member, DelayToOthers& out) {
  const EngineModel& model = *member.model;
  const double slower = model.slowdown(member.work->busy());
  const std::span ends(member.work->group().ends);
  double overlap = 0;
  for (const float end : ends.subspan(member.first, member.n))
    overlap += std::min(static_cast<double>(end) * slower, course.ends);
  out.here += overlap * kBehindShare;
  const InteractiveArrivals::Mean& one = member.coming;
  out.to_come +=
      one.per_second * course.ends * std::min(time_of(one, model) * slower, course.ends / 2) * kBehindShare;
}

// An answer at another engine is slowed while both engines are at work.
void add_beside(double from, double until, double busy, const Group::Member& member, DelayToOthers& out) {
  const EngineModel& model = *member.model;
  const double alone = model.slowdown(busy), both = model.slowdown(busy + 1);
  const double lost = 1 - alone / both, most = until - from;
  const std::span ends(member.work->group().ends);
  double overlap = 0;
  for (const float end : ends.subspan(member.first, member.n))
    overlap += std::clamp((static_cast<double>(end) - from / alone) * both, 0.0, most);
  out.beside += overlap * lost;
  const InteractiveArrivals::Mean& one = member.coming;
  out.to_come += one.per_second * most * std::min(time_of(one, model) * both, most / 2) * lost;
}

}  // namespace

void join_group(EngineWork& work, const EngineModel& model) {
  if (work.interactive() == 0) return;
  std::vector<Group::Member>& members = work.group().members;
  if (members.size() < Group::kMostMembers &&
      std::ranges::find(members, &work, &Group::Member::work) == members.end())
    members.push_back({.work = &work, .model = &model});
}

void foresee_interactive(Group& group, std::uint64_t request, TimePoint now) {
  group.ends.clear();
  for (Group::Member& member : group.members) {
    member.coming = member.work->coming(now);
    member.first = group.ends.size();
    if (member.work->interactive() > 0) {
      const EngineWork::Pace pace = member.work->pace(now, *member.model);
      member.work->each_interactive(request, [&](const auto& one) {
        const double prompts = one.state == Stay::State::decodes ? 0 : pace.prompts;
        group.ends.push_back(static_cast<float>(static_cast<double>(one.left) * pace.token + prompts));
      });
    }
    member.n = group.ends.size() - member.first;
  }
  std::erase_if(group.members, [](const Group::Member& member) {
    return member.work->interactive() == 0 && member.coming.per_second == 0;
  });
}

DelayToOthers delay_to_others(const Asked& asked, const Ahead& ahead, const Course& course, EngineWork& work,
                              const EngineModel& model, TimePoint now) {
  DelayToOthers out;
  const Group& group = work.group();
  const auto is_here = [&](const Group::Member& member) { return member.work == &work; };
  // First: it reads what ahead() has left in `work`, which until_done() changes.
  if (const auto here = std::ranges::find_if(group.members, is_here); here != group.members.end()) {
    if (asked.settings.place == config::QueuePlace::behind)
      add_behind(course, *here, out);
    else
      add_here(asked, ahead, course, *here, out);
  }
  if (std::ranges::all_of(group.members, is_here)) return out;
  // Its engine slows the others already until the answers that are there have ended.
  const double from = work.begun() > 0 ? std::max(course.begins, work.until_done(now, model)) : course.begins;
  if (from >= course.ends) return out;
  for (const Group::Member& member : group.members)
    if (!is_here(member))
      add_beside(from, course.ends, work.busy() - 1 + (member.work->begun() > 0 ? 0 : 1), member, out);
  return out;
}

}  // namespace flyball::predict
