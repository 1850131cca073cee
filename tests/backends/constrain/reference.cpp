#include "tests/backends/constrain/reference.hpp"

#include <algorithm>
#include <array>

namespace flyball::constrain::testing {

using grammar::Grammar;
using grammar::Kind;
using grammar::Node;
using grammar::NodeId;
using grammar::RuleId;

bool is_left_recursive(const Grammar& grammar) {
  std::vector<bool> nullable(grammar.nodes(), false), productive(grammar.nodes(), false);
  const auto at = [](NodeId id) { return static_cast<std::size_t>(id); };
  for (std::size_t round = 0; round <= grammar.nodes(); ++round) {
    for (std::size_t i = 0; i < grammar.nodes(); ++i) {
      const Node& node = grammar.node(NodeId{static_cast<std::uint32_t>(i)});
      const auto children = grammar.children(node);
      const auto is = [&](NodeId child) { return nullable[at(child)]; };
      switch (node.kind) {
        case Kind::text:
          nullable[i] = grammar.text_of(node).empty();
          break;
        case Kind::bytes:
          break;
        case Kind::dfa:
          nullable[i] = grammar.dfa_of(node).accepts("");
          break;
        case Kind::rule:
          nullable[i] = is(grammar.body(grammar.rule_of(node)));
          break;
        case Kind::sequence:
          nullable[i] = std::ranges::all_of(children, is);
          break;
        case Kind::choice:
          nullable[i] = std::ranges::any_of(children, is);
          break;
        case Kind::repeat:
          nullable[i] = node.least == 0 || is(children[0]);
          break;
      }
    }
  }
  // The nodes that a node can begin with.
  std::vector<std::set<std::size_t>> first(grammar.nodes());
  for (std::size_t i = 0; i < grammar.nodes(); ++i) {
    const Node& node = grammar.node(NodeId{static_cast<std::uint32_t>(i)});
    if (node.kind == Kind::rule) first[i].insert(at(grammar.body(grammar.rule_of(node))));
    if (node.kind == Kind::repeat && node.most == 0) continue;
    for (const NodeId child : grammar.children(node)) {
      first[i].insert(at(child));
      if (node.kind == Kind::sequence && !nullable[at(child)]) break;
    }
  }
  std::set<std::size_t> reached{at(grammar.body(RuleId{0}))};
  std::vector<std::size_t> work(reached.begin(), reached.end());
  while (!work.empty()) {
    const Node& node = grammar.node(NodeId{static_cast<std::uint32_t>(work.back())});
    work.pop_back();
    std::vector<NodeId> next(grammar.children(node).begin(), grammar.children(node).end());
    if (node.kind == Kind::rule) next.push_back(grammar.body(grammar.rule_of(node)));
    if (node.kind == Kind::repeat && node.most == 0) next.clear();
    for (const NodeId child : next) {
      if (reached.insert(at(child)).second) work.push_back(at(child));
    }
  }
  for (const std::size_t start : reached) {
    std::set<std::size_t> seen;
    work.assign(first[start].begin(), first[start].end());
    while (!work.empty()) {
      const std::size_t now = work.back();
      work.pop_back();
      if (now == start) return true;
      if (seen.insert(now).second) work.insert(work.end(), first[now].begin(), first[now].end());
    }
  }
  return false;
}

namespace {

constexpr std::string_view kAlphabet = "abc\"";

NodeId random_node(Grammar& grammar, Random& random, std::uint32_t rules, int depth) {
  const auto child = [&] { return random_node(grammar, random, rules, depth - 1); };
  const std::uint32_t kind = below(random, depth == 0 ? 4 : 10);
  switch (kind) {
    case 0: {
      std::string text;
      for (std::uint32_t n = below(random, 4); n > 0; --n) text += kAlphabet[below(random, 4)];
      return grammar.text(text);
    }
    case 1: {
      grammar::ByteSet set;
      for (std::uint32_t n = 1 + below(random, 2); n > 0; --n) {
        set.set(static_cast<std::uint8_t>(kAlphabet[below(random, 4)]));
      }
      return grammar.bytes(set);
    }
    case 2: {  // states in a ring, with edges that leap
      grammar::Dfa dfa;
      const std::uint32_t states = 1 + below(random, 3);
      for (std::uint32_t i = 0; i < states; ++i) {
        const auto begin = static_cast<std::uint32_t>(dfa.edges.size());
        for (std::uint8_t byte = 'a'; byte <= 'c'; ++byte) {
          if (below(random, 2) == 0) dfa.edges.push_back({byte, byte, below(random, states)});
        }
        dfa.states.push_back(
            {begin, static_cast<std::uint32_t>(dfa.edges.size()) - begin, below(random, 2) == 0});
      }
      return grammar.dfa(std::move(dfa));
    }
    case 3:
    case 4:
      return grammar.rule(RuleId{below(random, rules)});
    case 5:
    case 6: {
      std::vector<NodeId> children;
      for (std::uint32_t n = below(random, 4); n > 0; --n) children.push_back(child());
      return grammar.sequence(children);
    }
    case 7:
    case 8: {
      std::vector<NodeId> children;
      for (std::uint32_t n = 1 + below(random, 3); n > 0; --n) children.push_back(child());
      return grammar.choice(children);
    }
    default: {
      NodeId repeated = child();
      if (below(random, 2) == 0) {  // so large that it is counted
        repeated = grammar.choice(std::array{repeated, grammar.text(std::string(66, 'z'))});
      }
      const std::uint32_t least = below(random, 4);
      const std::uint32_t most = below(random, 3) == 0 ? grammar::kUnbounded : least + below(random, 4);
      return grammar.repeat(repeated, least, most);
    }
  }
}

bool write_word(const Grammar& grammar, NodeId id, Random& random, std::uint32_t& left, int depth,
                std::string& to) {
  if (left == 0 || depth == 0) return false;
  --left;
  const Node& node = grammar.node(id);
  const auto children = grammar.children(node);
  switch (node.kind) {
    case Kind::text:
      to += grammar.text_of(node);
      return true;
    case Kind::bytes: {
      std::vector<char> bytes;
      for (std::size_t byte = 0; byte < 256; ++byte) {
        if (grammar.set_of(node)[byte]) bytes.push_back(static_cast<char>(byte));
      }
      if (bytes.empty()) return false;
      to += bytes[below(random, static_cast<std::uint32_t>(bytes.size()))];
      return true;
    }
    case Kind::dfa: {
      const grammar::Dfa& dfa = grammar.dfa_of(node);
      std::uint32_t state = 0;
      for (int steps = 0; steps < 20; ++steps) {
        const auto& s = dfa.states[state];
        if (s.accepting && below(random, 2) == 0) return true;
        if (s.count == 0) return s.accepting;
        const auto& edge = dfa.edges[s.first + below(random, s.count)];
        to += static_cast<char>(edge.from);
        state = edge.next;
      }
      return dfa.states[state].accepting;
    }
    case Kind::rule:
      return write_word(grammar, grammar.body(grammar.rule_of(node)), random, left, depth - 1, to);
    case Kind::sequence:
      return std::ranges::all_of(
          children, [&](NodeId child) { return write_word(grammar, child, random, left, depth - 1, to); });
    case Kind::choice:
      if (children.empty()) return false;
      return write_word(grammar, children[below(random, node.count)], random, left, depth - 1, to);
    case Kind::repeat: {
      const std::uint32_t span = std::min(node.most - node.least, 3U);
      for (std::uint32_t n = node.least + below(random, span + 1); n > 0; --n) {
        if (!write_word(grammar, children[0], random, left, depth - 1, to)) return false;
      }
      return true;
    }
  }
  return false;
}

}  // namespace

Grammar random_grammar(Random& random) {
  Grammar out;
  const std::uint32_t rules = 1 + below(random, 3);
  for (std::uint32_t i = 0; i < rules; ++i) out.declare("r" + std::to_string(i));
  for (std::uint32_t i = 0; i < rules; ++i) out.define(RuleId{i}, random_node(out, random, rules, 3));
  return out;
}

std::pair<std::string, bool> random_word(const Grammar& grammar, Random& random) {
  std::string word;
  std::uint32_t left = 60;
  const bool whole = write_word(grammar, grammar.body(RuleId{0}), random, left, 40, word);
  return {whole ? word : "", whole};
}

}  // namespace flyball::constrain::testing
