#include "daemon/route/turns.hpp"

#include <algorithm>
#include <cmath>

namespace flyball::route {
namespace {

constexpr double kPaceMemory = 0.9;  // some ten places are remembered

}  // namespace

Turns::Place& Turns::Place::operator=(Place&& other) noexcept {
  if (this == &other) return *this;
  leave();
  turns_ = std::move(other.turns_);
  line_ = other.line_;
  id_ = std::exchange(other.id_, 0);
  return *this;
}

void Turns::Place::leave() {
  const auto turns = turns_.lock();
  const FairQueue::Id id = std::exchange(id_, 0);
  if (!turns || id == 0) return;
  Line& line = turns->lines_.at(*line_);
  if (!line.queue.waits(id)) turns->note_pace(line);
  line.queue.remove(id);
  line.granted.erase(id);
  turns->pump(line);
}

void Turns::Place::generated(std::uint64_t tokens) {
  charge([&](FairQueue& queue) { queue.generated(id_, tokens); });
}

void Turns::Place::settle(double prompt_tokens) {
  charge([&](FairQueue& queue) { queue.settle(id_, prompt_tokens); });
}

template <class Charge>
void Turns::Place::charge(Charge charge) {
  const auto turns = turns_.lock();
  if (!turns || id_ == 0) return;
  Line& line = turns->lines_.at(*line_);
  charge(line.queue);
  turns->pump(line);  // what one app has had may be what kept another from the last slot
}

std::optional<PlaceInLine> Turns::Place::in_line() const {
  const auto turns = turns_.lock();
  if (!turns || id_ == 0) return std::nullopt;
  const Line& line = turns->lines_.at(*line_);
  if (!line.queue.waits(id_)) return std::nullopt;
  PlaceInLine out{line.queue.ahead_of(id_)};
  if (line.pace_ms >= 0) out.eta_ms = std::llround(static_cast<double>(out.ahead + 1) * line.pace_ms);
  return out;
}

// Times between places are a pace only while every one of them is waited for.
void Turns::note_pace(Line& line) const {
  if (line.queue.waiting() == 0) {
    line.left_ms = -1;
    return;
  }
  const std::int64_t now = clock_();
  if (line.left_ms >= 0) {
    const auto took = static_cast<double>(now - line.left_ms);
    line.pace_ms = line.pace_ms < 0 ? took : kPaceMemory * line.pace_ms + (1 - kPaceMemory) * took;
  }
  line.left_ms = now;
}

std::int64_t Turns::pace_ms(const std::string& model) const {
  double pace = -1;
  for (const auto& [key, line] : lines_)
    if (key.first == model && line.pace_ms >= 0 && (pace < 0 || line.pace_ms < pace)) pace = line.pace_ms;
  return std::llround(pace);
}

double Turns::widest_gap() const {
  double widest = 0;
  for (const auto& [key, line] : lines_) widest = std::max(widest, line.queue.widest_gap());
  return widest;
}

Turns::Place Turns::ask(TurnRequest request, std::function<void()> granted) {
  const auto at = lines_.try_emplace({std::move(request.model), std::move(request.backend)}).first;
  Line& line = at->second;
  Place place;
  place.turns_ = weak_from_this();
  place.line_ = &at->first;
  place.id_ = request.arrival;
  line.queue.set_slots(request.slots);
  if (request.goes_on) {
    line.queue.begin(place.id_, request.app, request.weight, request.prompt_tokens, request.behind);
    granted();
    return place;
  }
  line.queue.add(place.id_, request.app, request.weight, request.prompt_tokens, request.behind);
  line.granted.emplace(place.id_, std::move(granted));
  pump(line);
  return place;
}

void Turns::pump(Line& line) {
  while (const auto id = line.queue.next()) {
    const auto turn = line.granted.extract(*id);
    turn.mapped()();
  }
}

void Turns::forecast(const std::string& model, FairQueue::Coming coming, std::vector<predict::LineState>& out,
                     bool both_places) const {
  out.clear();
  for (const bool behind : {false, true}) {
    if (behind && !both_places) return;
    coming.behind = behind;
    std::size_t next = 0;
    for (const auto& [key, line] : lines_) {
      if (key.first != model) continue;
      const TurnForecast turn = line.queue.forecast(coming);
      if (behind)
        out[next++].behind = turn;
      else
        out.push_back({key.second, turn});
    }
  }
}

std::optional<predict::LineState> Turns::forecast(const std::string& model, const std::string& backend,
                                                  const FairQueue::Coming& coming) const {
  const auto at = lines_.find({model, backend});
  if (at == lines_.end()) return std::nullopt;
  return predict::LineState{at->first.second, at->second.queue.forecast(coming)};
}

std::size_t Turns::waiting(const std::string& model, const std::string& backend) const {
  const auto at = lines_.find({model, backend});
  return at == lines_.end() ? 0 : at->second.queue.waiting();
}

}  // namespace flyball::route
