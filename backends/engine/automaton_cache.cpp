#include "backends/engine/automaton_cache.hpp"

#include <algorithm>

namespace flyball::engine {
namespace {

// Of one constraint: ordinary ones take a hundredth of it, and there may be as many as there are answers.
constexpr constrain::AutomatonLimits kAutomatonLimits{.memory = 4U << 20U, .most = 16U << 20U};
constexpr constrain::MaskLimits kMaskLimits{.memory = 8U << 20U};

}  // namespace

PlayedConstraint::PlayedConstraint(const CompiledConstraint& compiled)
    : program(compiled.program),
      vocabulary(compiled.vocabulary),
      automaton(std::make_shared<constrain::Automaton>(program, kAutomatonLimits)),
      masks(automaton, vocabulary, kMaskLimits) {}

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
