// Automata and masks of the constraints that answers play, kept for the next answers under the same ones. The
// engine thread's own.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "backends/constrain/automaton.hpp"
#include "backends/constrain/mask.hpp"
#include "backends/engine/constraint_cache.hpp"

namespace flyball::engine {

// Answers under the same constraint share these.
struct PlayedConstraint {
  explicit PlayedConstraint(const CompiledConstraint& compiled);

  std::shared_ptr<const constrain::Program> program;
  std::shared_ptr<const constrain::Vocabulary> vocabulary;
  std::shared_ptr<const MarkerTokens> markers;  // as in CompiledConstraint
  std::shared_ptr<constrain::Automaton> automaton;
  constrain::Masks masks;
  // Memory ran out within them, and what they say is not trusted any more.
  bool broken = false;
  std::size_t memory() const noexcept;
};

class AutomatonCache {
 public:
  // At most so many constraints are kept that no answer plays; the one used longest ago is forgotten first.
  // Each answer plays one, of at most some 14 MiB.
  static constexpr std::size_t kIdle = 64;
  static constexpr std::size_t kIdleBytes = std::size_t{64} << 20U;

  std::shared_ptr<PlayedConstraint> play(const CompiledConstraint& compiled);
  // Forgets idle ones over the bounds, and broken ones.
  void trim();
  std::size_t size() const noexcept { return played_.size(); }

 private:
  std::list<std::shared_ptr<PlayedConstraint>> played_;  // the one asked for last is first
};

}  // namespace flyball::engine
