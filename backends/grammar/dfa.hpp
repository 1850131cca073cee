// A deterministic automaton over bytes. Pure.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace flyball::grammar {

using ByteSet = std::bitset<256>;

// A word is accepted if its bytes lead from state 0 to an accepting one. Edges of a state are in the order of
// their bytes and do not overlap; a byte without an edge ends every word.
struct Dfa {
  struct Edge {
    std::uint8_t from = 0, to = 0;  // both within
    std::uint32_t next = 0;
  };
  struct State {
    std::uint32_t first = 0, count = 0;  // its edges
    bool accepting = false;
  };
  std::vector<State> states;  // at least one
  std::vector<Edge> edges;

  std::optional<std::uint32_t> next(std::uint32_t state, std::uint8_t byte) const;
  bool accepts(std::string_view word) const;
  std::size_t memory() const noexcept { return states.size() * sizeof(State) + edges.size() * sizeof(Edge); }
};

}  // namespace flyball::grammar
