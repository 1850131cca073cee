#include "backends/constrain/forced.hpp"

#include <array>

namespace flyball::constrain {

std::string forced(const Matcher& matcher, std::size_t most) {
  Automaton& automaton = *matcher.automaton();
  std::string out;
  for (Automaton::SetId at = matcher.now(); out.size() < most && !automaton.can_end(at);) {
    const grammar::ByteSet bytes = automaton.bytes_after(at);
    if (bytes.count() != 1) break;
    const std::size_t byte = bytes._Find_first();
    at = automaton.next(at, static_cast<std::uint8_t>(byte));
    if (at == Automaton::kOverflow) break;
    out.push_back(static_cast<char>(byte));
    if (automaton.is_full()) automaton.collect(std::array{at});
  }
  return out;
}

}  // namespace flyball::constrain
