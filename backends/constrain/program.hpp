// A grammar compiled to a recursive transition network: automata over bytes that call each other. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"

namespace flyball::constrain {

using StateId = std::uint32_t;
using ProcedureId = std::uint32_t;

// Every state lies on a path to an accepting one, and no procedure calls itself before it has read a byte.
struct Program {
  struct Edge {
    std::uint8_t from = 0, to = 0;  // both within
    StateId next = 0;
  };
  struct Call {
    ProcedureId procedure = 0;
    StateId next = 0;  // the state after the call
  };
  struct State {
    std::uint32_t edges = 0, calls = 0;  // where its own begin; they end where the next state's begin
    bool accepting = false;              // the end of its procedure's words
    bool tail = false;                   // accepting, without edges and calls: nothing has to return to it
  };
  // The nonempty words of a rule or of the child of a repeat. An empty word is a path around the call. A
  // counted procedure reads between `least` and `most` such words, one after the other.
  struct Procedure {
    StateId start = 0;
    bool counted = false;
    std::uint32_t least = 1, most = 1;  // `most` may be grammar::kUnbounded
  };

  std::vector<State> states;          // one more than there are: the end of the last one's edges and calls
  std::vector<Edge> edges;            // of a state: in the order of their bytes, without overlaps
  std::vector<Call> calls;            // of a state: one for each procedure
  std::vector<Procedure> procedures;  // 0 is the whole grammar
  bool nullable = false;              // the empty word is a word of the grammar
  // Bytes of one class are in the same edges of every state. Classes are intervals of bytes in their order.
  std::array<std::uint8_t, 256> class_of{};
  std::uint32_t classes = 1;

  std::span<const Edge> edges_of(StateId id) const {
    return {edges.data() + states[id].edges, states[id + 1].edges - states[id].edges};
  }
  std::span<const Call> calls_of(StateId id) const {
    return {calls.data() + states[id].calls, states[id + 1].calls - states[id].calls};
  }
  std::size_t memory() const noexcept;
};

// Fails with invalid_value for a rule without a definition, left recursion (through prefixes that may be
// empty, too) and a grammar without words, and with unsupported_feature if the fuel or the memory runs out.
Result<Program> compile(const grammar::Grammar& grammar, grammar::Fuel& fuel, const grammar::Limits& limits);

}  // namespace flyball::constrain
