#include "backends/engine/automaton_cache.hpp"

#include <algorithm>

namespace flyball::engine {

PlayedConstraint::PlayedConstraint(const CompiledConstraint& compiled)
    : program(compiled.program),
      vocabulary(compiled.vocabulary),
      automaton(std::make_shared<constrain::Automaton>(program)),
      masks(automaton, vocabulary) {}

std::shared_ptr<PlayedConstraint> AutomatonCache::play(const CompiledConstraint& compiled) {
  // Programs are compiled once while they are kept, so that their address tells them apart; a played one is
  // held.
  const auto found = std::ranges::find_if(
      played_, [&](const auto& one) { return one->program == compiled.program && !one->broken; });
  if (found != played_.end()) {
    played_.splice(played_.begin(), played_, found);
  } else {
    played_.push_front(std::make_shared<PlayedConstraint>(compiled));
  }
  return played_.front();
}

void AutomatonCache::trim() {
  std::size_t idle = 0, bytes = 0;
  for (auto it = played_.begin(); it != played_.end();) {
    if (it->use_count() > 1 && !(*it)->broken) {
      ++it;
      continue;
    }
    bytes += (*it)->memory();
    if ((*it)->broken || ++idle > kIdle || bytes > kIdleBytes) {
      it = played_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace flyball::engine
