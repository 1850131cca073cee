// Facts about a grammar's nodes that its compilation is decided by. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"

namespace flyball::constrain {

struct NodeFacts {
  bool reached = false;   // from rule 0; nodes that are not have no other facts
  bool nullable = false;  // has the empty word
  bool recursive = false;
  // A repeat is called if its copies are too many to write out: their number is counted while they are read.
  // A rule is called if it is recursive or too large to copy.
  bool called = false;
  std::uint32_t size = 0;  // states of its automaton, calls as one
};

// The facts of each node. Fails with invalid_value for a rule without a definition and unsupported_feature
// without fuel.
Result<std::vector<NodeFacts>> outline(const grammar::Grammar& grammar, grammar::Fuel& fuel);

// The least number of nonempty words that a repeat needs.
std::uint32_t least_words(const grammar::Node& repeat, const NodeFacts& child);

// The error of any step without fuel; compile() adds the limit.
std::unexpected<Error> out_of_fuel();

}  // namespace flyball::constrain
