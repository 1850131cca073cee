// A grammar that a compiler made of any source: within the limits, whole, and without a circle of nodes.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"

namespace flyball::grammar {

inline void check_grammar(const Grammar& grammar, const Limits& limits) {
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  require(grammar.memory() <= limits.memory);
  for (std::size_t r = 0; r < grammar.rules(); ++r) require(grammar.is_defined(static_cast<RuleId>(r)));
  for (std::size_t i = 0; i < grammar.nodes(); ++i) {
    const Node& node = grammar.node(static_cast<NodeId>(i));
    require(node.kind != Kind::choice || node.count > 0);
    require(node.kind != Kind::repeat || node.least <= node.most);
    if (node.kind == Kind::rule) require(static_cast<std::size_t>(grammar.rule_of(node)) < grammar.rules());
    for (const NodeId child : grammar.children(node)) require(static_cast<std::size_t>(child) < i);
  }
}

}  // namespace flyball::grammar
