#include "daemon/route/fair_queue.hpp"

#include <algorithm>
#include <cmath>

namespace flyball::route {
namespace {

std::uint64_t first_of(const std::map<FairQueue::Id, double>& waiting) {
  return waiting.empty() ? QueuedApp::kNone : waiting.begin()->first;
}

}  // namespace

void FairQueue::set_slots(std::uint32_t slots) noexcept {
  slots_ = std::max(1U, slots);
}

// The counter of an app that comes: lifted where it has nobody waiting, to the lowest of those who wait in
// lines of its place, or, where nobody waits, to that of who waited last.
double FairQueue::lifted(const QueuedApp& app) const noexcept {
  if (app.waits()) return app.service;
  const std::optional<std::size_t>& last = last_[app.behind ? 1 : 0];
  double least = last ? queued_[*last].service : 0;
  bool any = false;
  for (const QueuedApp& other : queued_)
    if (other.waits() && other.behind == app.behind) {
      least = any ? std::min(least, other.service) : other.service;
      any = true;
    }
  return std::max(app.service, least);
}

std::size_t FairQueue::arrive(const std::string& name, double weight, bool behind) {
  const auto [it, is_new] = (behind ? behind_ : index_).try_emplace(name, apps_.size());
  if (is_new) {
    apps_.emplace_back();
    queued_.emplace_back().behind = behind;
  }
  const std::size_t app = it->second;
  apps_[app].weight = weight;
  queued_[app].came = begun_;
  queued_[app].service = lifted(queued_[app]);
  return app;
}

void FairQueue::charge(std::size_t index, double tokens) noexcept {
  QueuedApp& app = queued_[index];
  app.service += tokens / apps_[index].weight;
  if (!app.waits()) return;
  for (const QueuedApp& other : queued_)
    if (other.waits() && other.behind == app.behind)
      widest_gap_ = std::max(widest_gap_, std::abs(app.service - other.service));
}

void FairQueue::add(Id id, const std::string& name, double weight, double prompt_tokens, bool behind) {
  const std::size_t app = arrive(name, weight, behind);
  apps_[app].waiting.emplace(id, prompt_tokens);
  queued_[app].first = first_of(apps_[app].waiting);
  ++waiting_;
  waiting_tokens_ += prompt_tokens;
  entries_[id] = {app, prompt_tokens, false};
}

void FairQueue::begin(Id id, const std::string& name, double weight, double prompt_tokens, bool behind) {
  const std::size_t app = arrive(name, weight, behind);
  entries_[id] = {app, prompt_tokens, false};
  start(id, app, prompt_tokens);
}

void FairQueue::start(Id id, std::size_t app, double prompt_tokens) {
  charge(app, kPromptToken * prompt_tokens);
  ++queued_[app].presence;
  running_.push_back({id, app});
  ++begun_;
  entries_[id].runs = true;
}

std::optional<FairQueue::Id> FairQueue::next() {
  if (waiting_ == 0) return std::nullopt;
  const auto app = next_turn(queued_, slots_, begun_);
  if (!app) return std::nullopt;
  Waiting& waiting = apps_[*app].waiting;
  const auto [id, prompt_tokens] = *waiting.begin();
  waiting.erase(waiting.begin());
  queued_[*app].first = first_of(waiting);
  --waiting_;
  waiting_tokens_ -= prompt_tokens;
  if (waiting.empty()) last_[queued_[*app].behind ? 1 : 0] = *app;
  start(id, *app, prompt_tokens);
  return id;
}

void FairQueue::generated(Id id, std::uint64_t tokens) {
  const auto it = entries_.find(id);
  if (it != entries_.end()) charge(it->second.app, kGeneratedToken * static_cast<double>(tokens));
}

void FairQueue::settle(Id id, double prompt_tokens) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.runs) return;
  charge(it->second.app, kPromptToken * (prompt_tokens - it->second.prompt_tokens));
  it->second.prompt_tokens = prompt_tokens;
}

void FairQueue::remove(Id id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const Entry entry = it->second;
  entries_.erase(it);
  if (entry.runs) {
    --queued_[entry.app].presence;
    running_.erase(std::ranges::find(running_, id, &Running::id));
    return;
  }
  Waiting& waiting = apps_[entry.app].waiting;
  waiting.erase(id);
  queued_[entry.app].first = first_of(waiting);
  --waiting_;
  waiting_tokens_ -= entry.prompt_tokens;
  if (waiting.empty()) last_[queued_[entry.app].behind ? 1 : 0] = entry.app;
}

bool FairQueue::waits(Id id) const {
  const auto it = entries_.find(id);
  return it != entries_.end() && !it->second.runs;
}

// Puts an app into the forecast; its place there.
std::size_t FairQueue::take_along(std::size_t app) const {
  const Waiting& waiting = apps_[app].waiting;
  ahead_.places[app] = ahead_.order.apps.size();
  ahead_.order.apps.push_back(queued_[app]);
  ahead_.rests.push_back({waiting.begin(), waiting.end(), apps_[app].weight});
  return ahead_.places[app];
}

void FairQueue::look_ahead() const {
  ahead_.order.apps.clear();
  ahead_.rests.clear();
  ahead_.places.assign(apps_.size(), kLeftOut);
  for (std::size_t i = 0; i < queued_.size(); ++i)
    if (const QueuedApp& app = queued_[i]; app.waits() || app.presence > 0 || came_lately(app, begun_))
      take_along(i);
  ahead_.begun.clear();
  for (const Running& one : running_) ahead_.begins(ahead_.places[one.app]);
}

// In the order in which they began; but those behind end after all others.
void FairQueue::Ahead::begins(std::size_t app) {
  const auto behind = [&](std::size_t one) { return order.apps[one].behind; };
  begun.insert(order.apps[app].behind ? begun.end() : std::ranges::find_if(begun, behind), app);
}

TurnForecast FairQueue::here() const noexcept {
  TurnForecast out;
  out.taken = running();
  out.waiting = static_cast<std::uint32_t>(waiting_);
  out.waiting_tokens = waiting_tokens_;
  return out;
}

TurnForecast FairQueue::forecast(const Coming& coming) const {
  static const Waiting kNobody;
  Asked asked;
  asked.answers = std::max(coming.answers, 1U);
  asked.first = coming.arrival > 0 ? coming.arrival : QueuedApp::kNone - asked.answers;
  asked.last = asked.first + asked.answers - 1;
  asked.coming = &coming;
  if (coming.arrival > 0) {
    Id first = asked.first, last = asked.last;
    while (first <= last && !entries_.contains(first)) ++first;
    while (last > first && !entries_.contains(last)) --last;
    const auto in_line = first <= last ? entries_.find(first) : entries_.end();
    if (in_line != entries_.end() && queued_[in_line->second.app].behind == coming.behind)
      return forecast(first, last);
  }
  look_ahead();
  const Index& index = coming.behind ? behind_ : index_;
  const auto it = index.find(coming.app);
  if (it == index.end()) {
    asked.app = ahead_.order.apps.size();
    ahead_.order.apps.emplace_back().behind = coming.behind;
    ahead_.rests.push_back({kNobody.end(), kNobody.end()});
  } else {
    const std::size_t place = ahead_.places[it->second];
    asked.app = place == kLeftOut ? take_along(it->second) : place;
  }
  ahead_.rests[asked.app].weight = coming.weight;
  QueuedApp& app = ahead_.order.apps[asked.app];
  app.service = lifted(app);
  app.came = begun_;
  app.first = std::min(app.first, asked.first);
  return follow(asked, here(), kFollowed);
}

TurnForecast FairQueue::forecast(Id first, Id last, std::size_t followed) const {
  look_ahead();
  const std::size_t app = entries_.at(first).app;
  Asked asked;
  asked.app = ahead_.places[app];
  asked.first = first;
  asked.last = last;
  TurnForecast out = here();
  const auto is_own = [&](const Running& one) { return one.id >= first && one.id <= last; };
  asked.begun = asked.answers = static_cast<std::uint32_t>(std::ranges::count_if(running_, is_own));
  out.taken -= asked.begun;
  const Waiting& waiting = apps_[app].waiting;
  for (auto one = waiting.lower_bound(first); one != waiting.end() && one->first <= last; ++one) {
    ++asked.answers;
    --out.waiting;
    out.waiting_tokens -= one->second;
  }
  return waits(last) ? follow(asked, out, followed) : out;
}

// The app's first request gets its turn in the forecast; the tokens of its prompt. own_begun: of the asked
// request's answers, those that have begun with this one.
double FairQueue::take_first(const Asked& asked, std::size_t index, std::uint32_t own_begun) const {
  const QueuedApp& app = ahead_.order.apps[index];
  const bool comes = index == asked.app && asked.coming != nullptr;
  Rest& rest = ahead_.rests[index];
  const bool in_line = !comes || app.first < asked.first || app.first > asked.last;
  const double tokens = in_line ? rest.next->second : asked.coming->prompt_tokens;
  if (in_line) ++rest.next;
  Id first = rest.next != rest.end ? rest.next->first : QueuedApp::kNone;
  if (comes && own_begun < asked.answers) first = std::min(first, asked.first + own_begun);
  ahead_.order.hand_over(index, app.service + kPromptToken * tokens / rest.weight, first);
  return tokens;
}

// `out` has the counts of other requests.
TurnForecast FairQueue::follow(const Asked& asked, TurnForecast out, std::size_t followed) const {
  std::uint32_t own_begun = asked.begun;
  std::uint64_t handed_over = begun_;
  ahead_.order.begin();
  for (;;) {
    const auto turn = ahead_.order.next(slots_, handed_over);
    if (!turn) {
      ahead_.order.end(ahead_.begun.front());
      ahead_.begun.erase(ahead_.begun.begin());
      ++(own_begun > 0 ? out.ends_between : out.ends);
      continue;
    }
    const Id id = ahead_.order.apps[*turn].first;
    const bool own = *turn == asked.app && id >= asked.first && id <= asked.last;
    if (own && id == asked.last) return out;
    if (followed-- == 0) break;
    if (own) ++own_begun;
    const double tokens = take_first(asked, *turn, own_begun);
    if (!own) ++(own_begun > 0 ? out.between : out.before);
    if (own_begun == 0) out.tokens += tokens;
    ahead_.begins(*turn);
    ++handed_over;
  }
  const std::uint32_t left = out.waiting - out.before - out.between;
  if (own_begun > 0) {
    out.between += left;
    out.ends_between += left;
  } else {
    out.tokens = out.waiting_tokens;
    out.before += left;
    out.ends += left;
  }
  out.ends_between += asked.answers - std::clamp(own_begun, 1U, asked.answers);
  return out;
}

double FairQueue::counter(const std::string& app) const {
  const auto it = index_.find(app);
  return it == index_.end() ? 0 : queued_[it->second].service;
}

}  // namespace flyball::route
