#include "daemon/route/turns.hpp"

namespace flyball::route {

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

Turns::Place Turns::ask(TurnRequest request, std::function<void()> granted) {
  const auto at = lines_.try_emplace({std::move(request.model), std::move(request.backend)}).first;
  Line& line = at->second;
  Place place;
  place.turns_ = weak_from_this();
  place.line_ = &at->first;
  place.id_ = ++last_;
  line.queue.set_slots(request.slots);
  if (request.goes_on) {
    line.queue.begin(place.id_, request.app, request.weight, request.prompt_tokens);
    granted();
    return place;
  }
  line.queue.add(place.id_, request.app, request.weight, request.prompt_tokens);
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

std::size_t Turns::waiting(const std::string& model, const std::string& backend) const {
  const auto at = lines_.find({model, backend});
  return at == lines_.end() ? 0 : at->second.queue.waiting();
}

}  // namespace flyball::route
