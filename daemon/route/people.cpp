#include "daemon/route/people.hpp"

#include <algorithm>
#include <utility>

#include "config/engine_kinds.hpp"

namespace flyball::route {

People::Place& People::Place::operator=(Place&& other) noexcept {
  // The new place is counted already, so a move on the same cores changes nothing.
  Place old(std::exchange(people_, std::move(other.people_)), std::exchange(group_, other.group_));
  return *this;
}

void People::Place::leave() {
  if (const auto people = std::exchange(people_, nullptr)) people->count(group_, false);
}

People::Place People::at(std::string_view backend) {
  const std::size_t group = group_of(config::kind_of(backend));
  count(group, true);
  return Place(shared_from_this(), group);
}

People::Kinds People::kinds() const {
  Kinds out;
  for (const config::EngineKind& kind : config::kEngineKinds)
    if (const std::size_t group = group_of(kind.id); group < answers_.size() && answers_[group] > 0)
      out.emplace_back(kind.id);
  return out;
}

std::size_t People::group_of(std::string_view kind) const {
  const auto it = std::ranges::find_if(
      groups_, [&](const auto& kinds) { return std::ranges::find(kinds, kind) != kinds.end(); });
  return static_cast<std::size_t>(it - groups_.begin());
}

void People::count(std::size_t group, bool comes) {
  answers_.resize(groups_.size() + 1);
  std::size_t& answers = answers_[group];
  answers += comes ? 1 : -1UL;
  if (answers == (comes ? 1U : 0U)) changed_(kinds());
}

}  // namespace flyball::route
