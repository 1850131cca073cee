#include "backends/grammar/prune.hpp"

#include <utility>
#include <vector>

#include "backends/grammar/automata.hpp"

namespace flyball::grammar {
namespace {

std::size_t index(NodeId id) {
  return static_cast<std::size_t>(id);
}

// True for each node that has a word: one is found when the last of the nodes it waits for has one.
std::vector<bool> nodes_with_words(const Grammar& grammar) {
  const std::size_t n = grammar.nodes();
  std::vector<std::uint32_t> missing(n, 0), first(n + 1, 0);
  const auto for_each_need = [&](auto&& visit) {
    for (std::uint32_t id = 0; id < n; ++id) {
      const Node& node = grammar.node(static_cast<NodeId>(id));
      if (node.kind == Kind::rule) visit(id, grammar.body(grammar.rule_of(node)));
      for (const NodeId child : grammar.children(node)) visit(id, child);
    }
  };
  for_each_need([&](std::uint32_t, NodeId child) { ++first[index(child) + 1]; });
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<std::uint32_t> waiting(first[n]), fill(first.begin(), first.end() - 1);
  for_each_need([&](std::uint32_t id, NodeId child) { waiting[fill[index(child)]++] = id; });

  std::vector<bool> has_word(n, false);
  std::vector<std::uint32_t> ready;
  const auto found = [&](std::uint32_t id) {
    if (has_word[id]) return;
    has_word[id] = true;
    ready.push_back(id);
  };
  for (std::uint32_t id = 0; id < n; ++id) {
    const Node& node = grammar.node(static_cast<NodeId>(id));
    switch (node.kind) {
      case Kind::text:
        found(id);
        break;
      case Kind::bytes:
        if (grammar.set_of(node).any()) found(id);
        break;
      case Kind::dfa:
        if (!is_empty(grammar.dfa_of(node))) found(id);
        break;
      case Kind::sequence:
        missing[id] = node.count;
        if (node.count == 0) found(id);
        break;
      case Kind::repeat:
        missing[id] = 1;
        if (node.least == 0) found(id);
        break;
      case Kind::rule:
      case Kind::choice:
        missing[id] = 1;
        break;
    }
  }
  while (!ready.empty()) {
    const std::uint32_t id = ready.back();
    ready.pop_back();
    for (std::uint32_t i = first[id]; i < first[id + 1]; ++i)
      if (missing[waiting[i]] > 0 && --missing[waiting[i]] == 0) found(waiting[i]);
  }
  return has_word;
}

// Nodes that the first rule leads to through nodes that have words.
std::vector<bool> used_nodes(const Grammar& grammar, const std::vector<bool>& has_word) {
  std::vector<bool> used(grammar.nodes(), false);
  std::vector<NodeId> stack;
  const auto use = [&](NodeId id) {
    if (!has_word[index(id)] || used[index(id)]) return;
    used[index(id)] = true;
    stack.push_back(id);
  };
  use(grammar.body(RuleId{0}));
  while (!stack.empty()) {
    const Node& node = grammar.node(stack.back());
    stack.pop_back();
    if (node.kind == Kind::rule) use(grammar.body(grammar.rule_of(node)));
    for (const NodeId child : grammar.children(node)) use(child);
  }
  return used;
}

}  // namespace

std::vector<bool> rules_with_words(const Grammar& grammar) {
  const auto has_word = nodes_with_words(grammar);
  std::vector<bool> out;
  for (std::size_t r = 0; r < grammar.rules(); ++r)
    out.push_back(has_word[index(grammar.body(static_cast<RuleId>(r)))]);
  return out;
}

std::optional<Grammar> prune(Grammar grammar) {
  const auto has_word = nodes_with_words(grammar);
  if (!has_word[index(grammar.body(RuleId{0}))]) return std::nullopt;
  const auto used = used_nodes(grammar, has_word);
  bool is_whole = true;
  for (const bool each : used) is_whole &= each;
  if (is_whole) return grammar;

  Grammar out;
  std::vector<std::optional<RuleId>> rules(grammar.rules());
  std::vector<NodeId> nodes(grammar.nodes());
  rules[0] = out.declare(grammar.name(RuleId{0}));
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    const Node& node = grammar.node(static_cast<NodeId>(i));
    std::vector<NodeId> children;
    for (const NodeId child : grammar.children(node))
      if (has_word[index(child)]) children.push_back(nodes[index(child)]);
    switch (node.kind) {
      case Kind::text:
        nodes[i] = out.text(grammar.text_of(node));
        break;
      case Kind::bytes:
        nodes[i] = out.bytes(grammar.set_of(node));
        break;
      case Kind::dfa:
        nodes[i] = out.dfa(grammar.dfa_of(node));
        break;
      case Kind::rule: {
        auto& rule = rules[node.index];
        if (!rule) rule = out.declare(grammar.name(grammar.rule_of(node)));
        nodes[i] = out.rule(*rule);
        break;
      }
      case Kind::sequence:
        nodes[i] = out.sequence(children);
        break;
      case Kind::choice:
        nodes[i] = children.size() == 1 ? children[0] : out.choice(children);
        break;
      case Kind::repeat:
        nodes[i] = children.empty() ? out.text("") : out.repeat(children[0], node.least, node.most);
        break;
    }
  }
  for (std::size_t r = 0; r < rules.size(); ++r)
    if (rules[r]) out.define(*rules[r], nodes[index(grammar.body(static_cast<RuleId>(r)))]);
  return out;
}

}  // namespace flyball::grammar
