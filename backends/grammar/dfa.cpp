#include "backends/grammar/dfa.hpp"

#include <algorithm>

namespace flyball::grammar {

std::optional<std::uint32_t> Dfa::next(std::uint32_t state, std::uint8_t byte) const {
  const auto begin = edges.begin() + states[state].first, end = begin + states[state].count;
  const auto edge =
      std::lower_bound(begin, end, byte, [](const Edge& e, std::uint8_t b) { return e.to < b; });
  if (edge == end || edge->from > byte) return std::nullopt;
  return edge->next;
}

bool Dfa::accepts(std::string_view word) const {
  std::uint32_t state = 0;
  for (const char byte : word) {
    const auto to = next(state, static_cast<std::uint8_t>(byte));
    if (!to) return false;
    state = *to;
  }
  return states[state].accepting;
}

}  // namespace flyball::grammar
