// Facts about a grammar's nodes that its compilation is decided by. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"

namespace flyball::constrain {

struct NodeFacts {
  bool reached = false;    // from rule 0; nodes that are not have no other facts but `nullable`
  bool nullable = false;   // has the empty word
  bool recursive = false;  // is part of a cycle of rules
  bool called = false;     // a rule that is recursive, too large to copy or used too often
  bool counted = false;    // a repeat of too many copies to write out: its words are counted as they are read
  std::uint32_t size = 0;  // states of its automaton, calls as one; at least 1
};

// The facts of each node. Fails with invalid_value for a rule without a definition and unsupported_feature
// without fuel.
Result<std::vector<NodeFacts>> outline(const grammar::Grammar& grammar, grammar::Fuel& fuel);

// The least number of nonempty words that a repeat needs.
std::uint32_t least_words(const grammar::Node& repeat, const NodeFacts& child);

}  // namespace flyball::constrain
