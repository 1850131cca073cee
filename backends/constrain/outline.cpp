#include "backends/constrain/outline.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace flyball::constrain {
namespace {

using grammar::Kind;
using grammar::Node;
using grammar::NodeId;

// A call costs a frame of the stack at run time, a copy costs its states: about those of a key and its colon.
constexpr std::uint32_t kLargestCopy = 32;
// Room for "{8}" of a class of characters (eight states each).
constexpr std::uint32_t kLargestRepeat = 64;

std::uint32_t saturated(std::uint64_t size) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, std::numeric_limits<std::uint32_t>::max()));
}

// Tarjan's strongly connected components over the nodes, where a rule's node leads to the rule's body.
// Children come out before their parents, so that one pass decides all facts but those of recursive nodes.
class Outliner {
 public:
  Outliner(const grammar::Grammar& grammar, grammar::Fuel& fuel)
      : grammar_(grammar),
        fuel_(fuel),
        facts_(grammar.nodes()),
        order_(grammar.nodes(), kUnseen),
        low_(grammar.nodes()),
        open_(grammar.nodes(), false) {}

  Result<std::vector<NodeFacts>> run() {
    if (grammar_.rules() == 0) return fail(ErrorCode::invalid_value, "the grammar has no rule");
    if (auto defined = enter_rule(grammar::RuleId{0}); !defined) return pass(defined);
    while (!path_.empty()) {
      if (!fuel_.spend()) return out_of_fuel();
      Visit& visit = path_.back();
      const Node& node = grammar_.node(NodeId{visit.node});
      if (node.kind == Kind::rule) {
        if (visit.next++ == 0) {
          if (auto defined = enter_rule(grammar_.rule_of(node)); !defined) return pass(defined);
          continue;
        }
      } else if (visit.next < node.count) {
        enter(static_cast<std::uint32_t>(grammar_.children(node)[visit.next++]));
        continue;
      }
      if (auto left = leave(); !left) return pass(left);
    }
    return std::move(facts_);
  }

 private:
  static constexpr std::uint32_t kUnseen = std::numeric_limits<std::uint32_t>::max();
  struct Visit {
    std::uint32_t node = 0, next = 0;
  };

  Result<void> enter_rule(grammar::RuleId rule) {
    if (!grammar_.is_defined(rule)) {
      return fail(ErrorCode::invalid_value, "the rule \"" + grammar_.name(rule) + "\" has no definition");
    }
    enter(static_cast<std::uint32_t>(grammar_.body(rule)));
    return {};
  }

  // The edge from the node at the end of the path to this one.
  void enter(std::uint32_t node) {
    if (order_[node] == kUnseen) {
      order_[node] = low_[node] = next_++;
      open_[node] = true;
      component_.push_back(node);
      path_.push_back({node, 0});
    } else if (open_[node] && !path_.empty()) {
      const std::uint32_t from = path_.back().node;
      low_[from] = std::min(low_[from], order_[node]);
      if (from == node) facts_[node].recursive = true;
    }
  }

  Result<void> leave() {
    const std::uint32_t node = path_.back().node;
    path_.pop_back();
    if (!path_.empty()) low_[path_.back().node] = std::min(low_[path_.back().node], low_[node]);
    if (low_[node] != order_[node]) return {};
    const auto first = std::ranges::find(component_.rbegin(), component_.rend(), node).base() - 1;
    const std::vector<std::uint32_t> members(first, component_.end());
    component_.erase(first, component_.end());
    return decide(members);
  }

  Result<void> decide(std::vector<std::uint32_t> members) {
    std::ranges::sort(members);  // children before parents, but for rules
    for (const std::uint32_t node : members) {
      open_[node] = false;
      facts_[node].reached = true;
      if (members.size() > 1) facts_[node].recursive = true;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t node : members) {
        if (!fuel_.spend(1 + grammar_.node(NodeId{node}).count)) return out_of_fuel();
        if (facts_[node].nullable || !is_nullable(grammar_.node(NodeId{node}))) continue;
        facts_[node].nullable = changed = true;
      }
    }
    for (const std::uint32_t node : members) {
      if (!fuel_.spend(1 + grammar_.node(NodeId{node}).count)) return out_of_fuel();
      decide_size(grammar_.node(NodeId{node}), facts_[node]);
    }
    return {};
  }

  NodeFacts& facts_of(NodeId id) { return facts_[static_cast<std::size_t>(id)]; }

  bool is_nullable(const Node& node) {
    const auto children = grammar_.children(node);
    const auto nullable = [&](NodeId child) { return facts_of(child).nullable; };
    switch (node.kind) {
      case Kind::text:
        return grammar_.text_of(node).empty();
      case Kind::bytes:
        return false;
      case Kind::dfa:
        return grammar_.dfa_of(node).states[0].accepting;
      case Kind::rule:
        return nullable(grammar_.body(grammar_.rule_of(node)));
      case Kind::sequence:
        return std::ranges::all_of(children, nullable);
      case Kind::choice:
        return std::ranges::any_of(children, nullable);
      case Kind::repeat:
        return node.least == 0 || nullable(children[0]);
    }
    return false;
  }

  void decide_size(const Node& node, NodeFacts& facts) {
    std::uint64_t size = 1;
    switch (node.kind) {
      case Kind::text:
        size = grammar_.text_of(node).size();
        break;
      case Kind::bytes:
        break;
      case Kind::dfa:
        size = grammar_.dfa_of(node).states.size();
        break;
      case Kind::rule: {
        const NodeFacts& body = facts_of(grammar_.body(grammar_.rule_of(node)));
        facts.called = body.recursive || body.size > kLargestCopy;
        if (!facts.called) size = body.size;
        break;
      }
      case Kind::sequence:
      case Kind::choice:
        for (const NodeId child : grammar_.children(node)) size += facts_of(child).size;
        break;
      case Kind::repeat: {
        const NodeFacts& child = facts_of(grammar_.children(node)[0]);
        const std::uint32_t least = least_words(node, child);
        const std::uint64_t copies = node.most == grammar::kUnbounded ? std::max(least, 1U) : node.most;
        facts.called = copies > 1 && copies * child.size > kLargestRepeat;
        if (!facts.called) size += copies * child.size;
        break;
      }
    }
    facts.size = saturated(size);
  }

  const grammar::Grammar& grammar_;
  grammar::Fuel& fuel_;
  std::vector<NodeFacts> facts_;
  std::vector<std::uint32_t> order_, low_;
  std::vector<bool> open_;  // its component is not known yet
  std::vector<std::uint32_t> component_;
  std::vector<Visit> path_;
  std::uint32_t next_ = 0;
};

}  // namespace

std::uint32_t least_words(const Node& repeat, const NodeFacts& child) {
  return child.nullable ? 0 : repeat.least;
}

std::unexpected<Error> out_of_fuel() {
  return fail(ErrorCode::unsupported_feature, "the grammar takes too many steps to compile");
}

Result<std::vector<NodeFacts>> outline(const grammar::Grammar& grammar, grammar::Fuel& fuel) {
  return Outliner(grammar, fuel).run();
}

}  // namespace flyball::constrain
