#include "backends/engine/automaton_cache.hpp"

#include <algorithm>

namespace flyball::engine {
namespace {

// Ordinary constraints take a hundredth of these bytes. The work is about 10 ms, which the other answers of a
// step wait for.
constexpr constrain::AutomatonLimits kAutomatonLimits{.memory = 2U << 20U, .most = 8U << 20U};
constexpr constrain::MaskLimits kMaskLimits{.memory = 4U << 20U, .work = 1'000'000};
// A played constraint has tables of fixed size beside what is counted.
constexpr std::size_t kFixedBytes = std::size_t{48} << 10U;

}  // namespace

PlayedConstraint::PlayedConstraint(const CompiledConstraint& compiled)
    : program(compiled.program),
      vocabulary(compiled.vocabulary),
      markers(compiled.markers),
      automaton(std::make_shared<constrain::Automaton>(program, kAutomatonLimits)),
      masks(automaton, vocabulary, kMaskLimits) {}

std::size_t PlayedConstraint::memory() const noexcept {
  return automaton->memory() + masks.memory() + program->memory() + kFixedBytes;
}

std::shared_ptr<PlayedConstraint> AutomatonCache::play(const CompiledConstraint& compiled) {
  trim();
  // Programs are compiled once while they are kept, so that their address tells them apart; a played one is
  // held.
  const auto found = std::ranges::find_if(played_, [&](const auto& one) {
    return one->program == compiled.program && one->vocabulary == compiled.vocabulary && !one->broken;
  });
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
