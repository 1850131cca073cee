#include "backends/constrain/outline.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "config/name_list.hpp"

namespace flyball::constrain {
namespace {

using grammar::Kind;
using grammar::Node;
using grammar::NodeId;

// A call costs a frame of the stack at run time, a copy costs its states: about those of a key and its colon.
constexpr std::uint32_t kLargestCopy = 32;
// States that the copies of one node may take together.
constexpr std::uint64_t kMostCopied = 2'000;
// Room for "{8}" of a class of characters (eight states each). Every node has a size, so that it bounds the
// number of copies, too.
constexpr std::uint32_t kLargestRepeat = 64;

std::uint32_t saturated(std::uint64_t size) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, std::numeric_limits<std::uint32_t>::max()));
}

// Tarjan's strongly connected components over the nodes, where a rule's node leads to the rule's body.
// Children come out before their parents, so that one pass decides the sizes: a recursive rule is called.
class Outliner {
 public:
  Outliner(const grammar::Grammar& grammar, grammar::Fuel& fuel)
      : grammar_(grammar),
        fuel_(fuel),
        steps_(fuel.left()),
        facts_(grammar.nodes()),
        order_(grammar.nodes(), kUnseen),
        low_(grammar.nodes()),
        open_(grammar.nodes(), false) {}

  Result<std::vector<NodeFacts>> run() {
    if (grammar_.rules() == 0) return fail(ErrorCode::invalid_value, "the grammar has no rule");
    if (!find_nullable()) return out_of_fuel();
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

  std::unexpected<Error> out_of_fuel() const {
    return fail(ErrorCode::unsupported_feature, "the grammar's " + std::to_string(grammar_.nodes()) +
                                                    " nodes take more than " + std::to_string(steps_) +
                                                    " steps to compile; make it smaller");
  }

  Result<void> enter_rule(grammar::RuleId rule) {
    if (!grammar_.is_defined(rule)) {
      return fail(ErrorCode::invalid_value,
                  "the rule " + config::quoted(grammar_.name(rule)) + " has no definition");
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
    for (const std::uint32_t node : members) {
      if (!fuel_.spend(1 + grammar_.node(NodeId{node}).count)) return out_of_fuel();
      decide_size(grammar_.node(NodeId{node}), uses_[node], facts_[node]);
    }
    return {};
  }

  NodeFacts& facts_of(NodeId id) { return facts_[static_cast<std::size_t>(id)]; }

  // A worklist over the edges from children to parents: linear in any order of the nodes. False without fuel.
  bool find_nullable() {
    const std::size_t n = grammar_.nodes();
    const auto each_child = [&](std::size_t id, const auto& f) {
      const Node& node = grammar_.node(static_cast<NodeId>(id));
      for (const NodeId child : grammar_.children(node)) f(static_cast<std::size_t>(child));
      if (node.kind == Kind::rule && grammar_.is_defined(grammar_.rule_of(node))) {
        f(static_cast<std::size_t>(grammar_.body(grammar_.rule_of(node))));
      }
    };
    std::vector<std::uint32_t> first(n + 1, 0), missing(n, 1),
        work;  // `missing`: children yet to be nullable
    for (std::size_t id = 0; id < n; ++id) {
      if (!fuel_.spend(4 + 4 * grammar_.node(static_cast<NodeId>(id)).count)) return false;
      each_child(id, [&](std::size_t child) { ++first[child + 1]; });
    }
    uses_.assign(first.begin() + 1, first.end());
    for (std::size_t id = 0; id < n; ++id) first[id + 1] += first[id];
    std::vector<std::uint32_t> parents(first[n]), filled(first.begin(), first.end() - 1);
    for (std::uint32_t id = 0; id < n; ++id) {
      each_child(id, [&](std::size_t child) { parents[filled[child]++] = id; });
      const Node& node = grammar_.node(NodeId{id});
      if (node.kind == Kind::sequence) missing[id] = node.count;
      if (is_nullable_itself(node)) missing[id] = 0;
      if (missing[id] == 0) work.push_back(id);
    }
    while (!work.empty()) {
      const std::uint32_t id = work.back();
      work.pop_back();
      facts_[id].nullable = true;
      for (std::uint32_t i = first[id]; i < first[id + 1]; ++i) {
        std::uint32_t& left = missing[parents[i]];
        if (left > 0 && --left == 0) work.push_back(parents[i]);
      }
    }
    return true;
  }

  // Whether it has the empty word whatever its children are. An empty sequence misses no child.
  bool is_nullable_itself(const Node& node) const {
    switch (node.kind) {
      case Kind::text:
        return grammar_.text_of(node).empty();
      case Kind::dfa:
        return grammar_.dfa_of(node).states[0].accepting;
      case Kind::repeat:
        return node.least == 0;
      default:
        return false;
    }
  }

  void decide_size(const Node& node, std::uint64_t uses, NodeFacts& facts) {
    std::uint64_t size = 1;
    switch (node.kind) {
      case Kind::text:
        size = std::max<std::size_t>(1, grammar_.text_of(node).size());
        break;
      case Kind::bytes:
        break;
      case Kind::dfa:
        size = grammar_.dfa_of(node).states.size();
        break;
      case Kind::rule: {
        const NodeFacts& body = facts_of(grammar_.body(grammar_.rule_of(node)));
        facts.called = body.recursive || body.size > kLargestCopy || body.size * uses > kMostCopied;
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
        facts.counted = copies > 1 && copies * child.size > kLargestRepeat;
        if (!facts.counted) size += copies * child.size;
        break;
      }
    }
    facts.size = saturated(size);
  }

  const grammar::Grammar& grammar_;
  grammar::Fuel& fuel_;
  std::uint64_t steps_;  // of the fuel at first
  std::vector<NodeFacts> facts_;
  std::vector<std::uint32_t> uses_;  // parents of each node
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

Result<std::vector<NodeFacts>> outline(const grammar::Grammar& grammar, grammar::Fuel& fuel) {
  return Outliner(grammar, fuel).run();
}

}  // namespace flyball::constrain
