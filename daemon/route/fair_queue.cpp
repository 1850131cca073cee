#include "daemon/route/fair_queue.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/fairness.hpp"

namespace flyball::route {

void FairQueue::set_slots(std::uint32_t slots) noexcept {
  slots_ = std::max(1U, slots);
}

// The app, its counter lifted where it has nobody waiting: to the lowest of those who wait, or, where nobody
// waits, to that of who waited last.
FairQueue::App& FairQueue::arrive(const std::string& name, double weight) {
  App& app = apps_[name];
  app.weight = weight;
  app.came = begun_;
  if (!app.waiting.empty()) return app;
  const auto last = apps_.find(last_);
  double least = last == apps_.end() ? 0 : last->second.counter;
  bool any = false;
  for (const auto& [other, state] : apps_)
    if (!state.waiting.empty()) {
      least = any ? std::min(least, state.counter) : state.counter;
      any = true;
    }
  app.counter = std::max(app.counter, least);
  return app;
}

void FairQueue::charge(App& app, double tokens) noexcept {
  app.counter += tokens / app.weight;
  if (app.waiting.empty()) return;
  for (const auto& [name, other] : apps_)
    if (!other.waiting.empty()) widest_gap_ = std::max(widest_gap_, std::abs(app.counter - other.counter));
}

void FairQueue::add(Id id, const std::string& name, double weight, double prompt_tokens) {
  App& app = arrive(name, weight);
  app.waiting.emplace(id, prompt_tokens);
  ++waiting_;
  entries_[id] = {name, prompt_tokens, false};
}

void FairQueue::begin(Id id, const std::string& name, double weight, double prompt_tokens) {
  App& app = arrive(name, weight);
  entries_[id] = {name, prompt_tokens, false};
  start(id, app, prompt_tokens);
}

void FairQueue::start(Id id, App& app, double prompt_tokens) {
  charge(app, kPromptToken * prompt_tokens);
  ++app.running;
  ++running_;
  ++begun_;
  entries_[id].runs = true;
}

bool FairQueue::others_come(const App& app) const noexcept {
  return std::ranges::any_of(apps_, [&](const auto& other) {
    return &other.second != &app && begun_ - other.second.came <= kRemembered;
  });
}

bool FairQueue::one_yields() const noexcept {
  return std::ranges::any_of(apps_, [](const auto& app) { return yields_place(app.second.running); });
}

std::optional<FairQueue::Id> FairQueue::next() {
  if (running_ > slots_ || (running_ == slots_ && !one_yields())) return std::nullopt;
  using Named = std::pair<const std::string, App>;
  Named *best = nullptr, *newcomer = nullptr;  // of all apps that wait, and of the newcomers
  const auto better = [](const App& a, const Named* b) {
    return b == nullptr || std::pair(a.counter, a.waiting.begin()->first) <
                               std::pair(b->second.counter, b->second.waiting.begin()->first);
  };
  for (Named& app : apps_) {
    if (app.second.waiting.empty()) continue;
    if (better(app.second, best)) best = &app;
    if (app.second.running == 0 && better(app.second, newcomer)) newcomer = &app;
  }
  if (best == nullptr) return std::nullopt;
  const bool last = slots_ > 1 && running_ + 1 == slots_ && others_come(best->second);
  if (last || running_ == slots_) {
    if (newcomer == nullptr || newcomer->second.counter > best->second.counter + kAhead) return std::nullopt;
    best = newcomer;
  }
  auto& [name, app] = *best;
  const auto [id, prompt_tokens] = *app.waiting.begin();
  app.waiting.erase(app.waiting.begin());
  --waiting_;
  if (app.waiting.empty()) last_ = name;
  start(id, app, prompt_tokens);
  return id;
}

void FairQueue::generated(Id id, std::uint64_t tokens) {
  const auto it = entries_.find(id);
  if (it != entries_.end()) charge(apps_[it->second.app], kGeneratedToken * static_cast<double>(tokens));
}

void FairQueue::settle(Id id, double prompt_tokens) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.runs) return;
  charge(apps_[it->second.app], kPromptToken * (prompt_tokens - it->second.prompt_tokens));
  it->second.prompt_tokens = prompt_tokens;
}

void FairQueue::remove(Id id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  App& app = apps_[it->second.app];
  if (it->second.runs) {
    --app.running;
    --running_;
  } else {
    app.waiting.erase(id);
    --waiting_;
    if (app.waiting.empty()) last_ = it->second.app;
  }
  entries_.erase(it);
}

bool FairQueue::waits(Id id) const {
  const auto it = entries_.find(id);
  return it != entries_.end() && !it->second.runs;
}

std::size_t FairQueue::ahead_of(Id id) const {
  FairQueue copy = *this;
  copy.set_slots(UINT32_MAX);
  std::size_t n = 0;
  for (auto next = copy.next(); next && *next != id; next = copy.next()) ++n;
  return n;
}

double FairQueue::counter(const std::string& app) const {
  const auto it = apps_.find(app);
  return it == apps_.end() ? 0 : it->second.counter;
}

}  // namespace flyball::route
