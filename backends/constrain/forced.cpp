#include "backends/constrain/forced.hpp"

#include <array>

namespace flyball::constrain {

Forced forced(const Matcher& matcher, std::size_t most) {
  Automaton& automaton = *matcher.automaton();
  Forced out;
  for (Automaton::SetId at = matcher.now(); out.bytes.size() < most && !automaton.can_end(at);) {
    const auto byte = automaton.only_byte_after(at);
    if (!byte) break;
    const Automaton::SetId from = at;
    at = automaton.next(from, *byte);
    if (at == Automaton::kOverflow && automaton.met() == Overflow::memory) {
      automaton.collect(std::array{from});
      at = automaton.next(from, *byte);
    }
    if (at == Automaton::kOverflow) {
      out.starved = automaton.met() == Overflow::memory;
      break;
    }
    out.bytes.push_back(static_cast<char>(*byte));
    out.whole = automaton.can_end(at) && automaton.bytes_after(at).none();
    if (automaton.is_full()) automaton.collect(std::array{at});
  }
  return out;
}

}  // namespace flyball::constrain
